import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Runs Apache Kafka's MetadataQuorumCommand again and again in one process.
 *
 * <p>Each line of input is a JSON array of arguments; each line of output is a JSON object with the
 * exit code and what the tool printed. Arguments that its parser refuses end the process, as they
 * end the tool.
 */
public final class KafkaTools {
    public static void main(String[] unused) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        Method tool = Class.forName("org.apache.kafka.tools.MetadataQuorumCommand")
            .getDeclaredMethod("mainNoExit", String[].class);
        tool.setAccessible(true);
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            var out = new ByteArrayOutputStream();
            var err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            ObjectNode said = json.createObjectNode();
            said.put("code", (int) tool.invoke(null, (Object) json.readValue(line, String[].class)));
            said.put("out", out.toString(StandardCharsets.UTF_8));
            said.put("err", err.toString(StandardCharsets.UTF_8));
            answers.println(json.writeValueAsString(said));
        }
    }
}
