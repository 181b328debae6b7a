package kraftspec.adapter;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.nio.BufferUnderflowException;
import java.util.List;
import java.util.regex.Pattern;

/** Why something was refused: a class of the harness protocol's closed list, and a sentence. */
final class Refusal extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** Kafka tells its reasons apart by message text only. The first rule that matches wins. */
    private static final List<Rule> RULES = List.of(
        new Rule("missing_field", "unable to locate field '"),
        new Rule("null_for_non_nullable", "was serialized as null"),
        new Rule("wrong_type", "expected .*, but got |: expected Base64-encoded binary data"),
        new Rule("integer_out_of_range", "failed to parse number: .*\"-?\\d{3,}\""),
        new Rule("wrong_type", "failed to parse (hexadecimal )?number"),
        new Rule("wrong_type", "unable to retrieve Base64-encoded binary data"),
        new Rule("integer_out_of_range", "does not fit in an? \\d+-bit"),
        new Rule("wrong_type", "base64(-encoded)? UUID$|Last unit does not have enough valid bits"),
        new Rule("length_too_long", "is too long to be serialized|had invalid length \\d"),
        new Rule("field_not_in_version", "Attempted to write a non-default "),
        new Rule("field_not_in_version", "Tagged fields were set, but version "),
        // MessageCodec has checked the message's own range: a struct of another version is meant.
        new Rule("field_not_in_version", "Can't (read|write|size) version "),
        // Kafka uses the greatest int32 to mean "no further tag is defined".
        new Rule("refused", "Attempted to use tag 2147483647 as an undefined tag"),
        new Rule("tag_duplicate", "Attempted to use tag \\d+ as an undefined tag"),
        new Rule("tag_duplicate", "tag (\\d+) comes after tag \\1, but is not higher"),
        new Rule("tag_out_of_order", "tag \\d+ comes after tag \\d+, but is not higher"),
        new Rule("tag_below_version", "Tag \\d+ is not valid for version "),
        new Rule("negative_length", "Error reading byte array of -"),
        new Rule("length_exceeds_input", "Error reading byte array of "),
        new Rule("length_exceeds_input", "Tried to allocate a collection of size "),
        new Rule("length_exceeds_input", "Tried to read \\d+ tagged fields, but there are only "),
        new Rule("varint_overflow", "Invalid negative number of tagged fields "),
        // ByteBuffer.limit, under Kafka's reading of records and zero-copy bytes.
        new Rule("length_exceeds_input", "newLimit > capacity"),
        new Rule("negative_length", "newLimit < 0"),
        new Rule("varint_overflow", "Varint is too long, the most significant bit "),
        // Of record batches.
        new Rule("record_count_mismatch", "Incorrect declared batch size, "),
        new Rule("negative_length", "Found invalid record count -"),
        new Rule("crc_mismatch", "Record is corrupt \\(stored crc = "),
        new Rule("bad_magic", "Invalid magic found in record: "),
        new Rule("batch_length_mismatch",
            "Record size -?\\d+ is less than the minimum|Record batch is corrupt \\(the size "),
        new Rule("unknown_compression", "Unknown compression type id: "),
        new Rule("negative_length",
            "Invalid negative header key size|Found invalid number of record headers -"),
        new Rule("length_exceeds_input", "Found invalid number of record headers"));

    private final String errorClass;

    private record Rule(String errorClass, Pattern pattern) {
        Rule(String errorClass, String regex) {
            this(errorClass, Pattern.compile(regex));
        }
    }

    Refusal(String errorClass, String detail) {
        super(detail);
        this.errorClass = errorClass;
    }

    /** What Kafka threw, under the class that its exception allows to be told, or "refused". */
    static Refusal of(Throwable thrown) {
        Throwable cause = thrown;
        while (cause instanceof InvocationTargetException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (cause instanceof Refusal refusal) {
            return refusal;
        }
        String detail = cause.getMessage() == null
            ? cause.getClass().getName()
            : cause.getClass().getName() + ": " + cause.getMessage();
        return new Refusal(classify(cause, detail), detail);
    }

    private static String classify(Throwable cause, String detail) {
        if (cause instanceof BufferUnderflowException) {
            return "truncated";
        }
        if (cause instanceof NegativeArraySizeException) {
            return "negative_length";
        }
        if (cause instanceof NullPointerException && thrownByGeneratedCode(cause)) {
            return "null_for_non_nullable"; // The generated write() says it so.
        }
        for (Rule rule : RULES) {
            if (rule.pattern.matcher(detail).find()) {
                return rule.errorClass;
            }
        }
        return "refused";
    }

    private static boolean thrownByGeneratedCode(Throwable cause) {
        StackTraceElement[] frames = cause.getStackTrace();
        return frames.length > 0
            && List.of("write", "addSize").contains(frames[0].getMethodName())
            && !frames[0].getClassName().startsWith(Refusal.class.getPackageName() + ".");
    }

    ObjectNode toJson() {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        json.put("class", errorClass);
        json.put("detail", getMessage());
        return json;
    }
}
