import java.nio.charset.StandardCharsets;
import java.util.*;
import kafka.api.LeaderAndIsr;
import kafka.cluster.Broker;
import kafka.cluster.EndPoint;
import kafka.controller.LeaderIsrAndControllerEpoch;
import kafka.controller.ReplicaAssignment;
import kafka.zk.*;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.feature.Features;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.migration.ZkMigrationLeadershipState;
import org.apache.kafka.server.common.ProducerIdsBlock;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Says what Kafka's own classes write into znodes, one line each: a name, a tab, the bytes. */
public class Znodes {
    static void say(String name, byte[] bytes) {
        System.out.println(name + "\t" + new String(bytes, StandardCharsets.UTF_8));
    }

    static scala.collection.immutable.List<Object> list(int... numbers) {
        List<Object> boxed = new ArrayList<>();
        for (int number : numbers) boxed.add(number);
        return scala.collection.immutable.List$.MODULE$.from(CollectionConverters.asScala(boxed));
    }

    static <K, V> scala.collection.immutable.Map<K, V> map(Map<K, V> values) {
        return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(values));
    }

    static void states() {
        for (LeaderRecoveryState recovery : LeaderRecoveryState.values()) {
            LeaderAndIsr state = LeaderAndIsr.apply(3, 17, list(3, 1), recovery, 5);
            say("state " + recovery, TopicPartitionStateZNode$.MODULE$.encode(new LeaderIsrAndControllerEpoch(state, 9)));
        }
    }

    static void topics() {
        for (int count : new int[] {1, 3, 11, 12, 23, 24, 50, 100, 1000}) {
            Map<TopicPartition, ReplicaAssignment> partitions = new LinkedHashMap<>();
            for (int p = 0; p < count; p++) partitions.put(new TopicPartition("t", p), ReplicaAssignment.apply(list(p % 7, p % 7 + 1)));
            say("topic " + count, TopicZNode$.MODULE$.encode(Option.apply(new Uuid(count, 7)), map(partitions)));
        }
        Map<TopicPartition, ReplicaAssignment> moving = new LinkedHashMap<>();
        for (int p = 0; p < 14; p++) moving.put(new TopicPartition("t", p), ReplicaAssignment.apply(list(1, 2)).reassignTo(list(3, 1)));
        moving.put(new TopicPartition("t", 14), ReplicaAssignment.apply(list(1)));
        say("topic moving", TopicZNode$.MODULE$.encode(Option.apply(new Uuid(1, 2)), map(moving)));
        say("topic without id", TopicZNode$.MODULE$.encode(Option.empty(), map(moving)));
    }

    static void brokers() {
        for (int count : new int[] {1, 2, 4, 5, 9}) {
            List<EndPoint> ends = new ArrayList<>();
            SecurityProtocol[] protocols = SecurityProtocol.values();
            for (int i = 0; i < count; i++)
                ends.add(new EndPoint(i == 1 ? "::1" : "h" + i, 9000 + i, new ListenerName("L" + i), protocols[(i + 1) % 4]));
            Map<String, SupportedVersionRange> features = new LinkedHashMap<>();
            for (int i = 0; i < count - 1; i++) features.put("feature." + i, new SupportedVersionRange((short) 1, (short) (i + 2)));
            Broker broker = Broker.apply(4, CollectionConverters.asScala(ends).toSeq(), count == 2 ? Option.empty() : Option.apply("r"), Features.supportedFeatures(features));
            say("broker " + count, BrokerIdZNode$.MODULE$.encode(new BrokerInfo(broker, 5, 9999)));
        }
    }

    static void configs() {
        String[] names = {"retention.ms", "cleanup.policy", "segment.bytes", "compression.type", "min.insync.replicas", "max.message.bytes",
            "flush.ms", "flush.messages", "segment.ms", "preallocate", "retention.bytes", "index.interval.bytes", "delete.retention.ms", "file.delete.delay.ms"};
        for (int count : new int[] {0, 1, 5, 9, 11, 12, 14}) {
            Properties config = new Properties();
            for (int i = 0; i < count; i++) config.setProperty(names[i], "v\u00fc\u0007\"\\" + i);
            say("config " + count, ConfigEntityZNode$.MODULE$.encode(config));
        }
    }

    static void others() {
        Map<TopicPartition, scala.collection.Seq<Object>> moves = new LinkedHashMap<>();
        moves.put(new TopicPartition("a", 0), list(1, 2));
        moves.put(new TopicPartition("b", 7), list(3));
        say("reassign", ReassignPartitionsZNode$.MODULE$.encode(map(moves)));
        Set<TopicPartition> two = moves.keySet();
        scala.collection.immutable.Set<TopicPartition> set = scala.collection.immutable.Set$.MODULE$.from(CollectionConverters.asScala(two));
        say("preferred", PreferredReplicaElectionZNode$.MODULE$.encode(set));
        say("isr change", IsrChangeNotificationSequenceZNode$.MODULE$.encode(set));
        say("log dir event", LogDirEventNotificationSequenceZNode$.MODULE$.encode(4));
        say("producer ids", ProducerIdBlockZNode$.MODULE$.generateProducerIdBlockJson(new ProducerIdsBlock(3, 5000, 1000)));
        say("controller", ControllerZNode$.MODULE$.encode(6, 1234567890123L, -1));
        say("controller epoch", ControllerEpochZNode$.MODULE$.encode(12));
        say("cluster id", ClusterIdZNode$.MODULE$.toJson("FofCvBuQSjiPR6S7WyRpXA"));
        Map<String, Object> levels = new LinkedHashMap<>();
        levels.put("group.version", (short) 1);
        levels.put("metadata.version", (short) 7);
        for (int version = 1; version <= 2; version++)
            for (FeatureZNodeStatus status : new FeatureZNodeStatus[] {FeatureZNodeStatus.Disabled$.MODULE$, FeatureZNodeStatus.Enabled$.MODULE$})
                say("feature " + version + " " + status, FeatureZNode$.MODULE$.encode(new FeatureZNode(version, status, map(levels))));
        say("migration", MigrationZNode$.MODULE$.encode(new ZkMigrationLeadershipState(3000, 5, 77L, 4, 1234567890123L, -1, 2, 3)));
        KafkaPrincipal bob = new KafkaPrincipal("User", "bob"), eve = new KafkaPrincipal("User", "al ice");
        say("token", DelegationTokenInfoZNode$.MODULE$.encode(new TokenInformation("tok-1", bob, eve, List.of(eve, bob), 10, 30, 20)));
    }

    static void placements() {
        int[][] cases = {{1, 1, 1, 0, 0, 0}, {5, 10, 3, 0, 0, 0}, {5, 7, 2, 3, 0, 0}, {6, 13, 3, 4, 5, 3}, {6, 13, 4, 1, 2, 2}, {7, 9, 3, 2, 0, 3}, {4, 8, 4, 1, 0, 4}, {9, 30, 5, 8, 11, 4}};
        for (int[] c : cases) {
            List<BrokerMetadata> brokers = new ArrayList<>();
            for (int i = 0; i < c[0]; i++)
                brokers.add(new BrokerMetadata(i * 2, c[5] == 0 ? Optional.empty() : Optional.of("rack" + (i * i) % c[5])));
            Map<Integer, List<Integer>> placed = new TreeMap<>(AdminUtils.assignReplicasToBrokers(brokers, c[1], c[2], c[3], c[4]));
            say("placement " + Arrays.toString(c).replace(" ", ""), placed.values().toString().replace(" ", "").getBytes(StandardCharsets.UTF_8));
        }
    }

    public static void main(String[] arguments) {
        states();
        topics();
        brokers();
        configs();
        others();
        placements();
    }
}
