import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.StringJoiner;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** kafka-clients, as a member of a group; what it says is described in __init__.py. */
public class Member {
    private static volatile boolean stopping;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[2]);
        properties.put("client.id", "java");
        String assignor = arguments[3].equals("range") ? "RangeAssignor" : "CooperativeStickyAssignor";
        properties.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
        properties.put("session.timeout.ms", "6000");
        properties.put("heartbeat.interval.ms", "1000");
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("max.poll.records", "50");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            try {
                main.join();
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    say("revoked", partitions);
                }

                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    say("assigned", partitions);
                }
            });
            while (!stopping) {
                round(consumer);
            }
        }
    }

    private static void round(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> read = new HashMap<>();
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
            say("{\"read\": [" + record.partition() + ", " + record.offset() + ", " + record.value() + "]}");
            TopicPartition place = new TopicPartition(record.topic(), record.partition());
            read.put(place, new OffsetAndMetadata(record.offset() + 1));
        }
        if (read.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(read);
            StringJoiner committed = new StringJoiner(", ", "{\"committed\": {", "}}");
            read.forEach((place, at) -> committed.add("\"" + place.partition() + "\": " + at.offset()));
            say(committed.toString());
        } catch (KafkaException error) {
            say("{\"failed\": \"" + error.getClass().getSimpleName() + "\"}");
        }
    }

    private static void say(String what, Collection<TopicPartition> partitions) {
        StringJoiner numbers = new StringJoiner(", ", "{\"" + what + "\": [", "]}");
        partitions.stream().map(TopicPartition::partition).sorted().forEach(each -> numbers.add(each.toString()));
        say(numbers.toString());
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
