import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Kafka's own message classes as a judge. Every line of input is "name version bytes origin json": the bytes in hex, or
 * "refused", and the values as json, or "-". The bytes must be what the class writes for what it reads from them, and
 * for the values, which are taken in as of version "origin". Every line of output is "ok", "absent" when this release
 * has no such version, "refused" when the version cannot carry the values, or what is wrong.
 *
 * With the argument "facts" it tells what else the protocol has: error codes, and the header of each API and version.
 */
public class Messages {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
    };
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final Map<String, Class<?>> CLASSES = new HashMap<>();
    private static final Map<String, Method> CONVERTERS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        if (args.length > 0) {
            facts(System.out);
            return;
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 5);
            short version = Short.parseShort(words[1]);
            out.println(judge(words[0], version, words[2], Short.parseShort(words[3]), words[4]));
        }
        out.flush();
    }

    private static void facts(PrintStream out) {
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            out.println("error " + error.code() + " " + error.name() + " " + retriable);
        }
        for (ApiMessageType api : ApiMessageType.values()) {
            for (int version = api.lowestSupportedVersion(); version <= api.highestSupportedVersion(true); version++) {
                short request = api.requestHeaderVersion((short) version);
                short response = api.responseHeaderVersion((short) version);
                out.println("header " + api.apiKey() + " " + version + " " + request + " " + response);
            }
        }
    }

    private static String judge(String name, short version, String hex, short origin, String json) {
        try {
            Class<?> cls = CLASSES.computeIfAbsent(name, Messages::find);
            if (cls == Void.class || !has(cls, version) || !has(cls, origin)) {
                return "absent";
            }
            String again = hex.equals("refused") ? hex : reread(cls, version, hex);
            if (!again.equals(hex)) {
                return "wrote what it read as " + again;
            }
            if (json.equals("-")) {
                return "ok";
            }
            String made = written(converted(cls, json, origin), version);
            return made.equals(hex) ? "ok" : "wrote the json as " + made;
        } catch (UnsupportedVersionException | NullPointerException error) {
            return hex.equals("refused") ? "ok" : "refused";
        } catch (Throwable error) {
            return "failed: " + (error.getCause() == null ? error : error.getCause()).toString().replace('\n', ' ');
        }
    }

    private static boolean has(Class<?> cls, short version) throws Exception {
        Message message = (Message) cls.getDeclaredConstructor().newInstance();
        return message.lowestSupportedVersion() <= version && version <= message.highestSupportedVersion();
    }

    private static String reread(Class<?> cls, short version, String hex) throws Exception {
        Message message = (Message) cls.getDeclaredConstructor().newInstance();
        ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(hex));
        message.read(new ByteBufferAccessor(bytes), version);
        return bytes.hasRemaining() ? bytes.remaining() + " bytes fewer" : written(message, version);
    }

    private static Class<?> find(String name) {
        for (String prefix : PACKAGES) {
            for (String suffix : new String[] {"Data", ""}) {
                try {
                    return Class.forName(prefix + name + suffix);
                } catch (ClassNotFoundException error) {
                    // It may be in the next one.
                }
            }
        }
        return Void.class;
    }

    private static Message converted(Class<?> cls, String json, short version) throws Exception {
        Method read = CONVERTERS.get(cls.getName());
        if (read == null) {
            Class<?> converter = Class.forName(cls.getName() + "JsonConverter");
            read = converter.getMethod("read", JsonNode.class, short.class);
            CONVERTERS.put(cls.getName(), read);
        }
        return (Message) read.invoke(null, JSON.readTree(json), version);
    }

    private static String written(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(bytes), cache, version);
        return HEX.formatHex(bytes.array(), 0, bytes.position());
    }
}
