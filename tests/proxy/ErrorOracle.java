// What Kafka's own request classes answer where their handling fails: for each line of the file
// that is named, "key version code body", a line with the response's body, or ! and the reason.

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

public class ErrorOracle {
    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            System.out.println(answer(line.split(" ", -1)));
        }
    }

    private static String answer(String[] fields) {
        short version = Short.parseShort(fields[1]);
        Errors error = Errors.forCode(Short.parseShort(fields[2]));
        try {
            ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(fields[3]));
            ApiKeys api = ApiKeys.forId(Short.parseShort(fields[0]));
            AbstractRequest request =
                AbstractRequest.parseRequest(api, version, new ByteBufferAccessor(body)).request;
            AbstractResponse response = request.getErrorResponse(0, error.exception());
            if (response == null) {
                return "!null";
            }
            ByteBuffer bytes = MessageUtil.toByteBufferAccessor(response.data(), version).buffer();
            byte[] copy = new byte[bytes.remaining()];
            bytes.get(copy);
            return HexFormat.of().formatHex(copy);
        } catch (Throwable refused) {
            return "!" + String.valueOf(refused).replace('\n', ' ');
        }
    }
}
