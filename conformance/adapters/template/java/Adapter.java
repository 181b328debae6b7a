import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;

/** Your codec behind the harness protocol: put it in the place of the walk in encode and decode. */
public final class Adapter {
  private static final HexFormat HEX = HexFormat.of();

  private final Walk walk = new Walk();

  /** Returns the bytes of a message; throws whatever you like to refuse it. */
  private byte[] encode(String message, long version, Object value) {
    return walk.encode(message, version, value); // Your codec goes here.
  }

  /** Returns what the bytes hold; throws whatever you like to refuse them. */
  private Object decode(String message, long version, byte[] data) {
    return walk.decode(message, version, data); // Your codec goes here.
  }

  private Map<String, Object> hello() {
    Map<String, Object> reply = new LinkedHashMap<>();
    reply.put("protocol", 1L);
    reply.put("name", "my-codec");
    reply.put("language", "java");
    reply.put("version", "0.1.0");
    reply.put("spec", "kafka/4.4.0");
    reply.put("messages", walk.ranges()); // What you serve: {"VoteRequest": "0-2"}
    return reply;
  }

  private Map<String, Object> answer(Map<?, ?> request) {
    Map<String, Object> reply = new LinkedHashMap<>();
    reply.put("id", request.get("id"));
    if (request.containsKey("spec")) {
      String reason = "only the messages of Apache Kafka are served";
      reply.put("skipped", Map.of("reason", reason));
      return reply;
    }
    try {
      String message = (String) request.get("message");
      long version = (Long) request.get("version");
      if (request.get("cmd").equals("encode")) {
        reply.put("hex", HEX.formatHex(encode(message, version, request.get("value"))));
      } else {
        byte[] data = HEX.parseHex((String) request.get("hex"));
        reply.put("value", decode(message, version, data));
      }
    } catch (RuntimeException error) {
      reply.put("error", Map.of("class", "refused", "detail", String.valueOf(error)));
    }
    return reply;
  }

  public static void main(String[] arguments) throws IOException {
    Adapter adapter = new Adapter();
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      Map<?, ?> request = (Map<?, ?>) Json.parse(line);
      if (request.get("cmd").equals("stop")) {
        break;
      }
      boolean hello = request.get("cmd").equals("hello");
      out.print(Json.format(hello ? adapter.hello() : adapter.answer(request)) + "\n");
      out.flush();
    }
  }
}
