import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's own tools many times in one process: a start of Java takes a second.
 *
 * <p>Reads lines {@code {"tool": class, "arguments": [...]}} and answers each by a line
 * {@code {"code": ..., "out": ..., "err": ..., "thrown": ...}}; {@code thrown} is the message of
 * the exception that ended it, of which Java would print the trace.
 */
public final class KafkaTools {
    private static final class Ended extends RuntimeException {
        final int code;

        Ended(int code) {
            this.code = code;
        }
    }

    public static void main(String[] none) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        PrintStream errors = System.err;
        Exit.Procedure ending = (code, message) -> {
            throw new Ended(code);
        };
        Exit.setExitProcedure(ending);
        Exit.setHaltProcedure(ending);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = json.readTree(line);
            List<String> arguments = new ArrayList<>();
            asked.get("arguments").forEach(each -> arguments.add(each.asText()));
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            ObjectNode answer = json.createObjectNode();
            try {
                Class.forName(asked.get("tool").asText())
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) arguments.toArray(new String[0]));
                answer.put("code", 0);
            } catch (java.lang.reflect.InvocationTargetException wrapped) {
                Throwable thrown = wrapped.getCause();
                if (thrown instanceof Ended) {
                    answer.put("code", ((Ended) thrown).code);
                } else {
                    answer.put("code", 1);
                    answer.put("thrown", String.valueOf(thrown.getMessage()));
                }
            }
            System.out.flush();
            System.err.flush();
            System.setOut(answers);
            System.setErr(errors);
            answer.put("out", out.toString(StandardCharsets.UTF_8));
            answer.put("err", err.toString(StandardCharsets.UTF_8));
            answers.println(json.writeValueAsString(answer));
            answers.flush();
        }
    }
}
