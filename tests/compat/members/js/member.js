// kafkajs as a member of a group; what it says is described in __init__.py beside this folder.
// Its own assignor goes by a name that no other client knows, so it is given one that they all do.
const { Kafka, AssignerProtocol, logLevel } = require("kafkajs");

const [bootstrap, topic, groupId] = process.argv.slice(2);
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");

const range = ({ cluster }) => ({
  name: "range",
  version: 0,
  async assign({ members, topics }) {
    const sorted = members.map(({ memberId }) => memberId).sort();
    const shares = Object.fromEntries(sorted.map((id) => [id, {}]));
    for (const name of topics) {
      const partitions = cluster.findTopicPartitionMetadata(name).map((each) => each.partitionId).sort((a, b) => a - b);
      const each = Math.floor(partitions.length / sorted.length);
      const more = partitions.length % sorted.length;
      sorted.forEach((id, number) => {
        const start = each * number + Math.min(number, more);
        shares[id][name] = partitions.slice(start, start + each + (number < more ? 1 : 0));
      });
    }
    return sorted.map((memberId) => ({
      memberId,
      memberAssignment: AssignerProtocol.MemberAssignment.encode({ version: 0, assignment: shares[memberId] }),
    }));
  },
  protocol({ topics }) {
    return { name: "range", metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics }) };
  },
});

const main = async () => {
  const kafka = new Kafka({
    brokers: bootstrap.split(","),
    clientId: "kafkajs",
    logLevel: logLevel.NOTHING,
    retry: { retries: 50, maxRetryTime: 1000 },
  });
  const consumer = kafka.consumer({
    groupId,
    sessionTimeout: 6000,
    heartbeatInterval: 1000,
    maxWaitTimeInMs: 200,
    partitionAssigners: [range],
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => say({ assigned: payload.memberAssignment[topic] || [] }));
  consumer.on(consumer.events.CRASH, ({ payload }) => say({ failed: payload.error.message }));
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      for (const message of batch.messages) {
        say({ read: [batch.partition, Number(message.offset), Number(message.value.toString())] });
      }
      const next = Number(batch.lastOffset()) + 1;
      try {
        await consumer.commitOffsets([{ topic, partition: batch.partition, offset: String(next) }]);
        say({ committed: { [batch.partition]: next } });
      } catch (error) {
        say({ failed: error.message }); // and the next heartbeat makes it join again
      }
    },
  });
  process.on("SIGTERM", async () => {
    await consumer.disconnect();
    process.exit(0);
  });
};

main();
