import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * Encodes and decodes any message by its plan: what your codec replaces.
 *
 * <p>plans.json has a plan for each message and version: the fields in wire order, the wire type of
 * each, whether it may be null, and the tagged fields with their defaults.
 */
final class Walk {
  private static final int LONGEST_STRING = 32767;
  private static final String UNKNOWN = "_unknownTaggedFields";
  private static final HexFormat HEX = HexFormat.of();
  private static final Map<String, Integer> BYTES =
      Map.of("int8", 1, "int16", 2, "uint16", 2, "int32", 4, "uint32", 4, "int64", 8);

  private final Map<String, Map<Long, Map<?, ?>>> plans = new TreeMap<>();

  Walk() {
    try (InputStream in = Walk.class.getResourceAsStream("/plans.json")) {
      String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
      for (Object one : (List<?>) Json.parse(text)) {
        Map<?, ?> plan = (Map<?, ?>) one;
        plans
            .computeIfAbsent(text(plan, "message"), name -> new TreeMap<>())
            .put((Long) plan.get("version"), plan);
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  Map<String, String> ranges() {
    Map<String, String> out = new TreeMap<>();
    plans.forEach(
        (name, versions) -> {
          TreeMap<Long, Map<?, ?>> held = (TreeMap<Long, Map<?, ?>>) versions;
          out.put(name, held.firstKey() + "-" + held.lastKey());
        });
    return out;
  }

  byte[] encode(String message, long version, Object value) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    putStruct(out, find(message, version), value);
    return out.toByteArray();
  }

  Object decode(String message, long version, byte[] data) {
    ByteBuffer in = ByteBuffer.wrap(data);
    Object value = struct(in, find(message, version));
    check(!in.hasRemaining(), in.remaining() + " bytes are left");
    return value;
  }

  private Map<?, ?> find(String message, long version) {
    Map<?, ?> plan = plans.getOrDefault(message, Map.of()).get(version);
    check(plan != null, "there is no " + message + " " + version);
    return plan;
  }

  private static void check(boolean holds, String otherwise) {
    if (!holds) {
      throw new IllegalArgumentException(otherwise);
    }
  }

  private static String text(Map<?, ?> plan, String name) {
    return (String) plan.get(name);
  }

  @SuppressWarnings("unchecked") // The plans are ours.
  private static List<Map<?, ?>> fields(Map<?, ?> plan, String name) {
    return (List<Map<?, ?>>) plan.get(name);
  }

  private static boolean is(Map<?, ?> plan, String name) {
    return Boolean.TRUE.equals(plan.get(name));
  }

  private static void putInteger(ByteArrayOutputStream out, long value, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
      out.write((int) (value >> shift));
    }
  }

  private static void putUvarint(ByteArrayOutputStream out, long value) {
    long left = value;
    for (; left > 0x7f; left >>= 7) {
      out.write((int) (left & 0x7f | 0x80));
    }
    out.write((int) left);
  }

  /** Writes a length or a count; -1 is null. */
  private static void putLength(ByteArrayOutputStream out, String wire, int length) {
    if (wire.startsWith("compact_")) {
      putUvarint(out, length + 1L);
    } else {
      putInteger(out, length, wire.equals("string") ? 2 : 4);
    }
  }

  private static void putStruct(ByteArrayOutputStream out, Map<?, ?> plan, Object value) {
    check(value instanceof Map, "a struct wanted, not " + value);
    Map<?, ?> held = (Map<?, ?>) value;
    Set<Object> known = new HashSet<>();
    fields(plan, "fields").forEach(field -> known.add(field.get("name")));
    fields(plan, "tagged").forEach(field -> known.add(field.get("name")));
    if (is(plan, "taggedSection")) {
      known.add(UNKNOWN);
    }
    held.keySet().forEach(name -> check(known.contains(name), "no such field: " + name));
    for (Map<?, ?> field : fields(plan, "fields")) {
      check(held.containsKey(field.get("name")), field.get("name") + " is missing");
      put(out, field, held.get(field.get("name")));
    }
    if (is(plan, "taggedSection")) {
      putTags(out, plan, held);
    }
  }

  private static void putTags(ByteArrayOutputStream out, Map<?, ?> plan, Map<?, ?> held) {
    Map<Long, byte[]> tags = new TreeMap<>();
    Set<Object> taken = new HashSet<>((List<?>) plan.get("laterTags"));
    for (Map<?, ?> field : fields(plan, "tagged")) {
      taken.add(field.get("tag"));
      Object name = field.get("name");
      if (held.containsKey(name) && !same(held.get(name), field.get("default"))) {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        put(body, field, held.get(name));
        tags.put((Long) field.get("tag"), body.toByteArray());
      }
    }
    long last = -1;
    for (Object one : held.get(UNKNOWN) instanceof List<?> unknown ? unknown : List.of()) {
      Map<?, ?> entry = (Map<?, ?>) one;
      long tag = (Long) entry.get("tag");
      boolean free = last < tag && tag <= Integer.MAX_VALUE && !taken.contains(tag);
      check(free, "tag " + tag + " after " + last + ", or taken");
      tags.put(tag, HEX.parseHex(text(entry, "hex")));
      last = tag;
    }
    putUvarint(out, tags.size());
    tags.forEach(
        (tag, body) -> {
          putUvarint(out, tag);
          putUvarint(out, body.length);
          out.writeBytes(body);
        });
  }

  private static boolean same(Object one, Object other) {
    return one == null ? other == null : one.equals(other);
  }

  private static void put(ByteArrayOutputStream out, Map<?, ?> field, Object value) {
    String name = text(field, "name");
    String wire = text(field, "wire");
    if (BYTES.containsKey(wire)) {
      int bits = 8 * BYTES.get(wire);
      check(value instanceof Long, name + ": " + wire + " wanted, not " + value);
      long number = (Long) value;
      boolean unsigned = wire.startsWith("u");
      long least = unsigned ? 0 : -1L << (bits - 1);
      long greatest = unsigned ? (1L << bits) - 1 : ~least;
      check(number >= least && number <= greatest, name + ": no " + wire + ": " + value);
      putInteger(out, number, bits / 8);
    } else if (wire.equals("bool")) {
      out.write((Boolean) value ? 1 : 0);
    } else if (wire.equals("float64")) {
      putFloat(out, value);
    } else if (wire.equals("uuid")) {
      byte[] data = Base64.getUrlDecoder().decode((String) value);
      check(data.length == 16, "a uuid has 16 bytes");
      out.writeBytes(data);
    } else if (value == null) {
      check(is(field, "nullable"), name + " is never null");
      if (wire.equals("struct")) {
        out.write(field.containsKey("tag") ? 0 : 0xff);
      } else {
        putLength(out, wire, -1);
      }
    } else if (wire.equals("struct")) {
      if (is(field, "nullable")) {
        out.write(1);
      }
      putStruct(out, (Map<?, ?>) field.get("element"), value);
    } else if (wire.endsWith("array")) {
      List<?> items = (List<?>) value;
      putLength(out, wire, items.size());
      for (Object item : items) {
        if (field.get("element") instanceof Map<?, ?> plan) {
          putStruct(out, plan, item);
        } else {
          put(out, element(field), item);
        }
      }
    } else {
      boolean isText = wire.endsWith("string");
      String held = (String) value;
      byte[] data =
          isText ? held.getBytes(StandardCharsets.UTF_8) : Base64.getDecoder().decode(held);
      check(!isText || data.length <= LONGEST_STRING, name + " has " + data.length + " bytes");
      putLength(out, wire, data.length);
      out.writeBytes(data);
    }
  }

  /** Returns the element of an array as a field; it is never null. */
  private static Map<?, ?> element(Map<?, ?> field) {
    return Map.of("name", field.get("name"), "wire", field.get("element"));
  }

  private static void putFloat(ByteArrayOutputStream out, Object value) {
    if (value instanceof String text) {
      check(text.matches("0x[0-9a-f]{16}"), "no float64: " + text);
      out.writeBytes(HEX.parseHex(text.substring(2)));
    } else {
      putInteger(out, Double.doubleToRawLongBits((Double) value), 8);
    }
  }

  private static byte[] take(ByteBuffer in, int count) {
    check(count <= in.remaining(), count + " bytes wanted at " + in.position());
    byte[] out = new byte[count];
    in.get(out);
    return out;
  }

  private static long integer(ByteBuffer in, int bytes, boolean signed) {
    long value = 0;
    for (byte one : take(in, bytes)) {
      value = value << 8 | one & 0xff;
    }
    int unused = 64 - 8 * bytes;
    return signed ? value << unused >> unused : value;
  }

  private static long uvarint(ByteBuffer in) {
    long value = 0;
    for (int at = 0; at < 5; at++) {
      long held = integer(in, 1, false);
      value |= (held & 0x7f) << (7 * at);
      if (held < 0x80) {
        check(held > 0 || at == 0, "a varint in too many bytes");
        check(value <= Integer.MAX_VALUE, "a varint of more than 31 bits");
        return value;
      }
    }
    throw new IllegalArgumentException("a varint has at most 5 bytes");
  }

  private static int length(ByteBuffer in, Map<?, ?> field) {
    String wire = text(field, "wire");
    boolean compact = wire.startsWith("compact_");
    long length = compact ? uvarint(in) - 1 : integer(in, wire.equals("string") ? 2 : 4, true);
    check(length >= -1, "length " + length);
    check(length >= 0 || is(field, "nullable"), field.get("name") + " is never null");
    check(length <= in.remaining(), field.get("name") + ": length " + length);
    return (int) length;
  }

  private static Map<String, Object> struct(ByteBuffer in, Map<?, ?> plan) {
    Map<String, Object> value = new LinkedHashMap<>();
    for (Map<?, ?> field : fields(plan, "fields")) {
      value.put(text(field, "name"), value(in, field));
    }
    if (!is(plan, "taggedSection")) {
      return value;
    }
    Map<Object, Map<?, ?>> known = new TreeMap<>();
    fields(plan, "tagged").forEach(field -> known.put(field.get("tag"), field));
    List<Object> unknown = new ArrayList<>();
    long last = -1;
    for (long count = uvarint(in); count > 0; count--) {
      long tag = uvarint(in);
      boolean later = ((List<?>) plan.get("laterTags")).contains(tag);
      check(last < tag && !later, "tag " + tag + " after " + last);
      last = tag;
      int size = (int) uvarint(in);
      int start = in.position();
      Map<?, ?> field = known.get(tag);
      if (field == null) {
        unknown.add(Map.of("tag", tag, "hex", HEX.formatHex(take(in, size))));
        continue;
      }
      Object held = value(in, field);
      check(in.position() - start == size, "tag " + tag + " has not " + size + " bytes");
      if (!same(held, field.get("default"))) {
        value.put(text(field, "name"), held);
      }
    }
    if (!unknown.isEmpty()) {
      value.put(UNKNOWN, unknown);
    }
    return value;
  }

  private static Object value(ByteBuffer in, Map<?, ?> field) {
    String wire = text(field, "wire");
    if (BYTES.containsKey(wire)) {
      return integer(in, BYTES.get(wire), !wire.startsWith("u"));
    }
    switch (wire) {
      case "bool":
        long held = integer(in, 1, false);
        check(held <= 1, "a bool is 0 or 1, not " + held);
        return held == 1;
      case "float64":
        long bits = integer(in, 8, true);
        double number = Double.longBitsToDouble(bits);
        return Double.isFinite(number) ? number : "0x" + HEX.toHexDigits(bits);
      case "uuid":
        return Base64.getUrlEncoder().withoutPadding().encodeToString(take(in, 16));
      case "struct":
        if (is(field, "nullable")) {
          int none = field.containsKey("tag") ? 0 : 0xff;
          long marker = integer(in, 1, false);
          check(marker == 1 || marker == none, "marker " + marker);
          if (marker == none) {
            return null;
          }
        }
        return struct(in, (Map<?, ?>) field.get("element"));
      default:
        int length = length(in, field);
        return length < 0 ? null : sized(in, field, wire, length);
    }
  }

  private static Object sized(ByteBuffer in, Map<?, ?> field, String wire, int length) {
    if (wire.endsWith("array")) {
      List<Object> items = new ArrayList<>();
      for (int at = 0; at < length; at++) {
        boolean plain = field.get("element") instanceof String;
        Map<?, ?> one = plain ? element(field) : (Map<?, ?>) field.get("element");
        items.add(plain ? value(in, one) : struct(in, one));
      }
      return items;
    }
    byte[] data = take(in, length);
    if (!wire.endsWith("string")) {
      return Base64.getEncoder().encodeToString(data);
    }
    check(length <= LONGEST_STRING, field.get("name") + " has " + length + " bytes");
    try {
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(data)).toString();
    } catch (CharacterCodingException error) {
      throw new IllegalArgumentException("not UTF-8", error);
    }
  }
}
