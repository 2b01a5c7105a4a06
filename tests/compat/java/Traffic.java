import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Records for a Kafka cluster, moved by lines on standard input; what happens is told on standard output.
 *
 * <pre>
 *   create TOPIC PARTITIONS REPLICAS   -> created TOPIC
 *   delete TOPIC                       -> deleted TOPIC
 *   start TOPIC                        -> started TOPIC; records go out until
 *   stop TOPIC                         -> stopped TOPIC ACKED FAILED
 *   acked TOPIC                        -> acked TOPIC ACKED
 *   read TOPIC                         -> read TOPIC RECORDS MISSING TWICE
 *   leaders TOPIC                      -> leaders TOPIC PARTITION:LEADER:ISR,ISR ...
 *   controller                         -> controller ID
 * </pre>
 */
public class Traffic {
    private static String bootstrap;
    private static final Map<String, Stream> streams = new HashMap<>();

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static Properties properties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("reconnect.backoff.max.ms", "200");
        properties.put("metadata.max.age.ms", "2000");
        return properties;
    }

    /** Sends numbers, and keeps those that were acknowledged. */
    private static final class Stream extends Thread {
        final String topic;
        final Set<String> acked = ConcurrentHashMap.newKeySet();
        final AtomicInteger failed = new AtomicInteger();
        volatile boolean running = true;

        Stream(String topic) {
            this.topic = topic;
        }

        @Override
        public void run() {
            Properties properties = properties();
            properties.put("acks", "all");
            properties.put("enable.idempotence", "true");
            properties.put("delivery.timeout.ms", "60000");
            properties.put("request.timeout.ms", "5000");
            properties.put("max.block.ms", "60000");
            properties.put("linger.ms", "5");
            StringSerializer text = new StringSerializer();
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties, text, text)) {
                for (int number = 0; running; number++) {
                    String value = Integer.toString(number);
                    producer.send(new ProducerRecord<>(topic, value, value), (where, error) -> {
                        if (error == null) {
                            acked.add(value);
                        } else {
                            failed.incrementAndGet();
                        }
                    });
                    Thread.sleep(5);
                }
                producer.flush();
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static void read(String topic, Set<String> wanted) {
        Map<String, Integer> found = new HashMap<>();
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties(), text, text)) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(info -> partitions.add(new TopicPartition(topic, info.partition())));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long deadline = System.nanoTime() + 60_000_000_000L;
            while (System.nanoTime() < deadline
                    && partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    found.merge(record.value(), 1, Integer::sum);
                }
            }
        }
        Set<String> missing = new HashSet<>(wanted);
        missing.removeAll(found.keySet());
        long twice = found.values().stream().filter(count -> count > 1).count();
        say("read " + topic + " " + found.size() + " " + missing.size() + " " + twice);
    }

    private static String shown(TopicPartitionInfo partition) {
        List<String> isr = new ArrayList<>();
        for (Node node : partition.isr()) {
            isr.add(Integer.toString(node.id()));
        }
        int leader = partition.leader() == null ? -1 : partition.leader().id();
        return " " + partition.partition() + ":" + leader + ":" + String.join(",", isr);
    }

    private static void run(Admin admin, String[] words) throws Exception {
        switch (words[0]) {
            case "create":
                NewTopic topic = new NewTopic(words[1], Integer.parseInt(words[2]), Short.parseShort(words[3]));
                int replicas = Integer.parseInt(words[3]);
                topic.configs(Map.of("min.insync.replicas", replicas > 2 ? "2" : "1"));
                admin.createTopics(List.of(topic)).all().get();
                say("created " + words[1]);
                break;
            case "delete":
                admin.deleteTopics(List.of(words[1])).all().get();
                say("deleted " + words[1]);
                break;
            case "start":
                Stream begun = new Stream(words[1]);
                streams.put(words[1], begun);
                begun.start();
                say("started " + words[1]);
                break;
            case "acked":
                say("acked " + words[1] + " " + streams.get(words[1]).acked.size());
                break;
            case "stop":
                Stream ended = streams.get(words[1]);
                ended.running = false;
                ended.join();
                say("stopped " + words[1] + " " + ended.acked.size() + " " + ended.failed.get());
                break;
            case "read":
                read(words[1], streams.get(words[1]).acked);
                break;
            case "leaders":
                TopicDescription description =
                        admin.describeTopics(List.of(words[1])).allTopicNames().get().get(words[1]);
                StringBuilder line = new StringBuilder("leaders " + words[1]);
                description.partitions().forEach(partition -> line.append(shown(partition)));
                say(line.toString());
                break;
            case "controller":
                say("controller " + admin.describeCluster().controller().get().id());
                break;
            default:
                say("unknown " + words[0]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        Properties properties = properties();
        properties.put("default.api.timeout.ms", "40000");
        properties.put("request.timeout.ms", "10000");
        try (Admin admin = Admin.create(properties)) {
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
            say("ready");
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                try {
                    run(admin, line.split(" "));
                } catch (Exception error) {
                    say("failed " + line + ": " + error);
                }
            }
        }
        System.exit(0);
    }
}
