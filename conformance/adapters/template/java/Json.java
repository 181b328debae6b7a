import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON: Long (beyond 64 bits BigInteger), Double, String, Boolean, null, List and Map. */
final class Json {
  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  static Object parse(String text) {
    Json json = new Json(text);
    Object value = json.value();
    if (json.peek() != 0) {
      throw new IllegalArgumentException("text after the JSON at " + json.at);
    }
    return value;
  }

  static String format(Object value) {
    StringBuilder out = new StringBuilder();
    write(out, value);
    return out.toString();
  }

  /** Returns the next character that is no space; 0 is the end. */
  private char peek() {
    while (at < text.length() && text.charAt(at) <= ' ') {
      at++;
    }
    return at < text.length() ? text.charAt(at) : 0;
  }

  private boolean next(char wanted) {
    boolean is = peek() == wanted;
    at += is ? 1 : 0;
    return is;
  }

  private void take(char wanted) {
    if (!next(wanted)) {
      throw new IllegalArgumentException(wanted + " wanted at " + at);
    }
  }

  private Object value() {
    switch (peek()) {
      case '{':
        return object();
      case '[':
        return array();
      case '"':
        return string();
      default:
        return word();
    }
  }

  private Map<String, Object> object() {
    Map<String, Object> out = new LinkedHashMap<>();
    take('{');
    if (next('}')) {
      return out;
    }
    do {
      peek();
      String name = string();
      take(':');
      out.put(name, value());
    } while (next(','));
    take('}');
    return out;
  }

  private List<Object> array() {
    List<Object> out = new ArrayList<>();
    take('[');
    if (next(']')) {
      return out;
    }
    do {
      out.add(value());
    } while (next(','));
    take(']');
    return out;
  }

  private String string() {
    take('"');
    StringBuilder out = new StringBuilder();
    for (char one = text.charAt(at++); one != '"'; one = text.charAt(at++)) {
      out.append(one == '\\' ? escaped() : one);
    }
    return out.toString();
  }

  private char escaped() {
    char one = text.charAt(at++);
    if (one == 'u') {
      at += 4;
      return (char) Integer.parseInt(text.substring(at - 4, at), 16);
    }
    int plain = "bfnrt".indexOf(one);
    return plain < 0 ? one : "\b\f\n\r\t".charAt(plain);
  }

  private Object word() {
    int start = at;
    while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
      at++;
    }
    String word = text.substring(start, at);
    switch (word) {
      case "null":
        return null;
      case "true":
        return true;
      case "false":
        return false;
      default:
        if (word.matches(".*[.eE].*")) {
          return Double.valueOf(word);
        }
        // An integer of more than 64 bits is no Long, and so no field's.
        BigInteger number = new BigInteger(word);
        return number.bitLength() < Long.SIZE ? (Object) number.longValue() : number;
    }
  }

  private static void write(StringBuilder out, Object value) {
    if (value instanceof String) {
      quote(out, (String) value);
    } else if (value instanceof List) {
      String between = "[";
      for (Object item : (List<?>) value) {
        write(out.append(between), item);
        between = ",";
      }
      out.append(between.equals("[") ? "[]" : "]");
    } else if (value instanceof Map) {
      String between = "{";
      for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
        quote(out.append(between), (String) entry.getKey());
        write(out.append(':'), entry.getValue());
        between = ",";
      }
      out.append(between.equals("{") ? "{}" : "}");
    } else {
      out.append(value); // A float has a point: 1.0
    }
  }

  private static void quote(StringBuilder out, String text) {
    out.append('"');
    for (char one : text.toCharArray()) {
      if (one == '"' || one == '\\') {
        out.append('\\').append(one);
      } else if (one < ' ') {
        out.append(String.format("\\u%04x", (int) one));
      } else {
        out.append(one);
      }
    }
    out.append('"');
  }
}
