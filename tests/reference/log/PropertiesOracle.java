// What java.util.Properties reads in the files named, as lines of hexadecimal: key, value.

import java.io.FileInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Properties;
import java.util.TreeMap;

public class PropertiesOracle {
    public static void main(String[] paths) throws Exception {
        HexFormat hex = HexFormat.of();
        for (String path : paths) {
            Properties properties = new Properties();
            try (InputStream in = new FileInputStream(path)) {
                properties.load(in);
            } catch (IllegalArgumentException refused) {
                System.out.println("refused");
                continue;
            }
            TreeMap<String, String> sorted = new TreeMap<>();
            properties.forEach((key, value) -> sorted.put((String) key, (String) value));
            StringBuilder line = new StringBuilder("read");
            sorted.forEach((key, value) -> {
                line.append(' ').append(hex.formatHex(key.getBytes(StandardCharsets.UTF_16BE)));
                line.append('=').append(hex.formatHex(value.getBytes(StandardCharsets.UTF_16BE)));
            });
            System.out.println(line);
        }
    }
}
