import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** kafka-clients behind the lines of JSON that tests/compat/clients/__init__.py describes. */
public class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long PATIENCE_MS = 60_000;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say(JSON.createObjectNode().put("version", AppInfoParser.getVersion()));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            say(answer(JSON.readTree(line)));
        }
    }

    private static void say(ObjectNode what) throws Exception {
        System.out.println(JSON.writeValueAsString(what));
        System.out.flush();
    }

    private static ObjectNode answer(JsonNode asked) {
        try {
            switch (asked.get("do").asText()) {
                case "produce": return produce(asked);
                case "read": return read(asked);
                case "offsets": return offsets(asked);
                default: return administer(asked);
            }
        } catch (Exception thrown) {
            Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
            return JSON.createObjectNode().put("error", cause.toString()).put("code", Errors.forException(cause).code());
        }
    }

    private static Properties properties(JsonNode asked) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", asked.get("bootstrap").asText());
        return properties;
    }

    private static ObjectNode administer(JsonNode asked) throws Exception {
        ObjectNode said = JSON.createObjectNode();
        try (Admin admin = Admin.create(properties(asked))) {
            String topic = asked.path("topic").asText();
            switch (asked.get("do").asText()) {
                case "create":
                    Map<String, String> config = new HashMap<>();
                    asked.get("config").fields().forEachRemaining(one -> config.put(one.getKey(), one.getValue().asText()));
                    NewTopic made = new NewTopic(topic, Optional.of(asked.get("partitions").asInt()), Optional.empty());
                    admin.createTopics(List.of(made.configs(config))).all().get();
                    break;
                case "grow":
                    NewPartitions total = NewPartitions.increaseTo(asked.get("partitions").asInt());
                    admin.createPartitions(Map.of(topic, total)).all().get();
                    break;
                case "delete":
                    admin.deleteTopics(List.of(topic)).all().get();
                    break;
                case "list":
                    ArrayNode names = said.putArray("topics");
                    admin.listTopics().names().get().forEach(names::add);
                    break;
                case "describe":
                    describe(admin, topic, said.putArray("partitions"));
                    break;
                case "configs":
                    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
                    ObjectNode configs = said.putObject("configs");
                    for (ConfigEntry one : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
                        configs.put(one.name(), one.value());
                    }
                    break;
                default:
                    throw new IllegalArgumentException("nobody here can " + asked.get("do"));
            }
        }
        return said;
    }

    private static void describe(Admin admin, String topic, ArrayNode rows) throws Exception {
        for (TopicPartitionInfo one : admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions()) {
            ArrayNode row = rows.addArray().add(one.partition()).add(one.leader() == null ? -1 : one.leader().id());
            ArrayNode replicas = row.addArray();
            one.replicas().stream().map(Node::id).forEach(replicas::add);
            ArrayNode inSync = row.addArray();
            one.isr().stream().map(Node::id).forEach(inSync::add);
        }
    }

    private static ObjectNode produce(JsonNode asked) throws Exception {
        Properties properties = properties(asked);
        properties.put("compression.type", asked.get("codec").asText());
        properties.put("acks", asked.get("acks").asText());
        properties.put("enable.idempotence", asked.get("idempotent").asBoolean());
        properties.put("max.request.size", 8 << 20);
        properties.put("linger.ms", 5);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        ObjectNode said = JSON.createObjectNode();
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, bytes, bytes)) {
            for (JsonNode one : asked.get("records")) {
                JsonNode at = one.get("timestamp");
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                    asked.get("topic").asText(), one.get("partition").asInt(), at.isNull() ? null : at.asLong(),
                    plain(one.get("key")), plain(one.get("value")));
                for (JsonNode pair : one.get("headers")) record.headers().add(pair.get(0).asText(), plain(pair.get(1)));
                sent.add(producer.send(record));
            }
            producer.flush();
            ArrayNode offsets = said.putArray("offsets");
            for (Future<RecordMetadata> one : sent) offsets.add(one.get().offset());
        }
        return said;
    }

    private static byte[] plain(JsonNode value) throws Exception {
        return value.isNull() ? null : value.binaryValue();
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode asked) {
        Properties properties = properties(asked);
        properties.put("auto.offset.reset", "none");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        return new KafkaConsumer<>(properties, bytes, bytes);
    }

    private static ObjectNode offsets(JsonNode asked) {
        TopicPartition partition = new TopicPartition(asked.get("topic").asText(), asked.get("partition").asInt());
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(asked)) {
            OffsetAndTimestamp at = consumer.offsetsForTimes(Map.of(partition, asked.get("time").asLong())).get(partition);
            return JSON.createObjectNode()
                .put("earliest", consumer.beginningOffsets(List.of(partition)).get(partition))
                .put("latest", consumer.endOffsets(List.of(partition)).get(partition))
                .put("at", at == null ? -1 : at.offset());
        }
    }

    private static ObjectNode read(JsonNode asked) {
        List<TopicPartition> partitions = new ArrayList<>();
        asked.get("assigned").forEach(one -> partitions.add(new TopicPartition(asked.get("topic").asText(), one.asInt())));
        ObjectNode said = JSON.createObjectNode();
        ArrayNode visits = said.putArray("visits");
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(asked)) {
            consumer.assign(partitions);
            for (JsonNode visit : asked.get("visits")) {
                seek(consumer, partitions, visit);
                ArrayNode records = visits.addArray();
                while (records.size() < visit.get("count").asInt() && System.currentTimeMillis() < deadline) {
                    for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(500))) {
                        if (records.size() < visit.get("count").asInt()) show(one, records.addObject());
                    }
                }
            }
        }
        return said;
    }

    private static void seek(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions, JsonNode visit) {
        Map<TopicPartition, Long> times = new HashMap<>();
        for (TopicPartition one : partitions) {
            if (visit.has("time")) times.put(one, visit.get("time").asLong());
            else consumer.seek(one, visit.get("offset").asLong());
        }
        if (times.isEmpty()) return;
        consumer.offsetsForTimes(times).forEach((partition, found) -> {
            if (found == null) consumer.seekToEnd(List.of(partition));
            else consumer.seek(partition, found.offset());
        });
    }

    private static void show(ConsumerRecord<byte[], byte[]> record, ObjectNode shown) {
        shown.put("partition", record.partition()).put("offset", record.offset()).put("timestamp", record.timestamp());
        shown.put("key", record.key()).put("value", record.value());
        ArrayNode headers = shown.putArray("headers");
        for (Header one : record.headers()) headers.addArray().add(one.key()).add(one.value());
    }
}
