// sarama behind the lines of JSON that tests/compat/clients/__init__.py describes.
package main

import (
	"errors"
	"fmt"
	"time"

	"clients/lines"

	"github.com/IBM/sarama"
)

func main() {
	lines.Serve("github.com/IBM/sarama", do, codeOf)
}

func codeOf(err error) int16 {
	var known sarama.KError
	if errors.As(err, &known) {
		return int16(known)
	}
	return -1
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	return config
}

func do(asked lines.Request) (lines.Answer, error) {
	switch asked.Do {
	case "produce":
		return produce(asked)
	case "read":
		return read(asked)
	}
	admin, err := sarama.NewClusterAdmin(asked.Seeds(), config())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	switch asked.Do {
	case "create":
		configs := map[string]*string{}
		for name, value := range asked.Config {
			configs[name] = &value
		}
		detail := &sarama.TopicDetail{NumPartitions: asked.Partitions, ReplicationFactor: 1, ConfigEntries: configs}
		return lines.Answer{}, admin.CreateTopic(asked.Topic, detail, false)
	case "grow":
		return lines.Answer{}, admin.CreatePartitions(asked.Topic, asked.Partitions, nil, false)
	case "delete":
		return lines.Answer{}, admin.DeleteTopic(asked.Topic)
	case "list":
		topics, err := admin.ListTopics()
		names := []string{}
		for name := range topics {
			names = append(names, name)
		}
		return lines.Answer{"topics": names}, err
	case "describe":
		return describe(admin, asked)
	case "configs":
		found := map[string]string{}
		entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: asked.Topic})
		for _, one := range entries {
			found[one.Name] = one.Value
		}
		return lines.Answer{"configs": found}, err
	case "offsets":
		return offsets(asked)
	}
	return nil, fmt.Errorf("nobody here can %q", asked.Do)
}

func describe(admin sarama.ClusterAdmin, asked lines.Request) (lines.Answer, error) {
	topics, err := admin.DescribeTopics([]string{asked.Topic})
	if err != nil {
		return nil, err
	}
	if topics[0].Err != sarama.ErrNoError {
		return nil, topics[0].Err
	}
	rows := [][]any{}
	for _, one := range topics[0].Partitions {
		rows = append(rows, []any{one.ID, one.Leader, one.Replicas, one.Isr})
	}
	return lines.Answer{"partitions": rows}, nil
}

func offsets(asked lines.Request) (lines.Answer, error) {
	client, err := sarama.NewClient(asked.Seeds(), config())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	said := lines.Answer{}
	for name, at := range map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest, "at": asked.Time} {
		if said[name], err = client.GetOffset(asked.Topic, asked.Partition, at); err != nil {
			return nil, err
		}
	}
	return said, nil
}

func produce(asked lines.Request) (lines.Answer, error) {
	codecs := map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	acks := map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}
	config := config()
	config.Producer.Compression = codecs[asked.Codec]
	config.Producer.RequiredAcks = acks[asked.Acks]
	config.Producer.Idempotent = asked.Idempotent
	config.Producer.MaxMessageBytes = lines.RequestBytesMax
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1 // or what is sent again goes out of order
	producer, err := sarama.NewSyncProducer(asked.Seeds(), config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	sent := make([]*sarama.ProducerMessage, len(asked.Records))
	for i, one := range asked.Records {
		sent[i] = &sarama.ProducerMessage{Topic: asked.Topic, Partition: one.Partition}
		// An encoder without bytes stands for empty ones; null is no encoder at all.
		if one.Key != nil {
			sent[i].Key = sarama.ByteEncoder(one.Key)
		}
		if one.Value != nil {
			sent[i].Value = sarama.ByteEncoder(one.Value)
		}
		if one.Timestamp != nil {
			sent[i].Timestamp = time.UnixMilli(*one.Timestamp)
		}
		for _, pair := range one.Headers {
			sent[i].Headers = append(sent[i].Headers, sarama.RecordHeader{Key: []byte(pair.Name), Value: pair.Value})
		}
	}
	if err := producer.SendMessages(sent); err != nil {
		var failed sarama.ProducerErrors
		if errors.As(err, &failed) {
			return nil, failed[0].Err
		}
		return nil, err
	}
	offsets := make([]int64, len(sent))
	for i, one := range sent {
		offsets[i] = one.Offset
	}
	return lines.Answer{"offsets": offsets}, nil
}

// A partition consumer of sarama cannot seek: each visit makes new ones, which all feed one channel.
func read(asked lines.Request) (lines.Answer, error) {
	client, err := sarama.NewClient(asked.Seeds(), config())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	patience := time.After(lines.Patience)
	visits := [][]lines.Record{}
	for _, one := range asked.Visits {
		found, err := visit(client, asked, one, patience)
		if err != nil {
			return nil, err
		}
		visits = append(visits, found)
	}
	return lines.Answer{"visits": visits}, nil
}

func visit(client sarama.Client, asked lines.Request, where lines.Visit, patience <-chan time.Time) ([]lines.Record, error) {
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	defer close(done)
	messages := make(chan *sarama.ConsumerMessage)
	for _, partition := range asked.Assigned {
		start := int64(0)
		if where.Offset != nil {
			start = *where.Offset
		} else if start, err = client.GetOffset(asked.Topic, partition, *where.Time); err != nil {
			return nil, err
		}
		reader, err := consumer.ConsumePartition(asked.Topic, partition, start)
		if err != nil {
			return nil, err
		}
		defer reader.AsyncClose()
		go func() {
			for message := range reader.Messages() {
				select {
				case messages <- message:
				case <-done:
					return
				}
			}
		}()
	}
	found := []lines.Record{}
	for len(found) < where.Count {
		select {
		case message := <-messages:
			found = append(found, shown(message))
		case <-patience:
			return found, nil
		}
	}
	return found, nil
}

func shown(got *sarama.ConsumerMessage) lines.Record {
	at := got.Timestamp.UnixMilli()
	headers := []lines.Header{}
	for _, one := range got.Headers {
		headers = append(headers, lines.Header{Name: string(one.Key), Value: one.Value})
	}
	return lines.Record{Partition: got.Partition, Offset: got.Offset, Timestamp: &at, Key: got.Key, Value: got.Value, Headers: headers}
}
