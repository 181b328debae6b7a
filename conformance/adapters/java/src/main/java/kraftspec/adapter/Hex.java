package kraftspec.adapter;

import java.util.HexFormat;

/** Bytes as lower-case hex digits. */
final class Hex {
    private static final HexFormat FORMAT = HexFormat.of();

    private Hex() {}

    static String format(byte[] bytes) {
        return FORMAT.formatHex(bytes);
    }

    static byte[] parse(String text) {
        try {
            return FORMAT.parseHex(text);
        } catch (IllegalArgumentException e) {
            throw new Refusal("refused", "not hex: " + e.getMessage());
        }
    }
}
