package org.apache.kafka.raft;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import sun.misc.Unsafe;

/**
 * Makes the order in which {@code Set.of}, {@code Map.of} and their {@code copyOf} are iterated the
 * same in every Java process.
 *
 * <p>Java draws a number when it starts, and mixes it into that order. Kafka sends requests in such
 * an order, so that two processes would do different things after the same commands. The number is
 * replaced here, before any client exists. Methods that were compiled by then could have the old
 * number in their code: the command that starts the harness keeps them from being compiled.
 */
final class FixedOrder {
    private static final long SALT = 0x5EED;

    private FixedOrder() { }

    /** Fails with an {@link IllegalStateException} in a Java that keeps this order otherwise. */
    static void establish() {
        try {
            Set.of(0, 1, 2); // The class must be initialised before its fields are set.
            Class<?> collections = Class.forName("java.util.ImmutableCollections");
            Unsafe unsafe = unsafe();
            write(unsafe, collections.getDeclaredField("SALT32L"), SALT);
            write(unsafe, collections.getDeclaredField("REVERSE"), false);
        } catch (ReflectiveOperationException | RuntimeException error) {
            throw unfit(error.toString(), error);
        }
        verify();
    }

    @SuppressWarnings("removal") // Nothing else can write a static final field.
    private static void write(Unsafe unsafe, Field field, Object value) {
        Object base = unsafe.staticFieldBase(field);
        long offset = unsafe.staticFieldOffset(field);
        if (value instanceof Long number && field.getType() == long.class) {
            unsafe.putLong(base, offset, number);
        } else if (value instanceof Boolean choice && field.getType() == boolean.class) {
            unsafe.putBoolean(base, offset, choice);
        } else {
            throw new IllegalStateException(field.getName() + " is a " + field.getType());
        }
    }

    private static Unsafe unsafe() throws ReflectiveOperationException {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (Unsafe) field.get(null);
    }

    /** An element goes to the place that the number and its hash give, or to the next free one. */
    private static List<Integer> expected(int count) {
        Integer[] table = new Integer[2 * count];
        for (int element = 0; element < count; element++) {
            int place = Math.floorMod(element, table.length);
            while (table[place] != null) {
                place = (place + 1) % table.length;
            }
            table[place] = element;
        }
        List<Integer> order = new ArrayList<>();
        int start = (int) (SALT * table.length >>> 32);
        for (int step = 0; step < table.length; step++) {
            // Not reversed: downwards from the place that the number gives.
            start = start == 0 ? table.length - 1 : start - 1;
            if (table[start] != null) {
                order.add(table[start]);
            }
        }
        return order;
    }

    private static void verify() {
        int count = 40;
        Integer[] elements = new Integer[count];
        for (int i = 0; i < count; i++) {
            elements[i] = i;
        }
        for (int round = 0; round < 3; round++) {
            List<Integer> order = List.copyOf(Set.of(elements));
            if (!order.equals(expected(count))) {
                throw unfit("Set.of has the order " + order, null);
            }
        }
    }

    private static IllegalStateException unfit(String why, Throwable cause) {
        return new IllegalStateException("the harness needs OpenJDK 17 to 25, for it sets the order"
            + " of Java's immutable collections; this is " + System.getProperty("java.vm.name")
            + " " + System.getProperty("java.version") + ": " + why, cause);
    }
}
