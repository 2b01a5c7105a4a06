// franz-go behind the lines of JSON that tests/compat/clients/__init__.py describes.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"clients/lines"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	lines.Serve("github.com/twmb/franz-go", do, codeOf)
}

func codeOf(err error) int16 {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Code
	}
	return -1
}

func do(asked lines.Request) (lines.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lines.Patience)
	defer cancel()
	switch asked.Do {
	case "produce":
		return produce(ctx, asked)
	case "read":
		return read(ctx, asked)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(asked.Seeds()...))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return administer(ctx, kadm.NewClient(client), asked)
}

func administer(ctx context.Context, admin *kadm.Client, asked lines.Request) (lines.Answer, error) {
	switch asked.Do {
	case "create":
		configs := map[string]*string{}
		for name, value := range asked.Config {
			configs[name] = &value
		}
		_, err := admin.CreateTopic(ctx, asked.Partitions, 1, configs, asked.Topic)
		return lines.Answer{}, err
	case "grow":
		done, err := admin.UpdatePartitions(ctx, int(asked.Partitions), asked.Topic)
		if err == nil {
			err = done[asked.Topic].Err
		}
		return lines.Answer{}, err
	case "delete":
		_, err := admin.DeleteTopic(ctx, asked.Topic)
		return lines.Answer{}, err
	case "list":
		topics, err := admin.ListTopics(ctx)
		return lines.Answer{"topics": topics.Names()}, err
	case "describe":
		topics, err := admin.ListTopics(ctx, asked.Topic)
		if err != nil {
			return nil, err
		}
		rows := [][]any{}
		for _, one := range topics[asked.Topic].Partitions.Sorted() {
			rows = append(rows, []any{one.Partition, one.Leader, one.Replicas, one.ISR})
		}
		return lines.Answer{"partitions": rows}, topics[asked.Topic].Err
	case "configs":
		found := map[string]*string{}
		described, err := admin.DescribeTopicConfigs(ctx, asked.Topic)
		if err != nil {
			return nil, err
		}
		for _, one := range described[0].Configs {
			found[one.Key] = one.Value
		}
		return lines.Answer{"configs": found}, described[0].Err
	case "offsets":
		return offsets(ctx, admin, asked)
	}
	return nil, fmt.Errorf("nobody here can %q", asked.Do)
}

func offsets(ctx context.Context, admin *kadm.Client, asked lines.Request) (lines.Answer, error) {
	said := lines.Answer{}
	for name, ask := range map[string]func() (kadm.ListedOffsets, error){
		"earliest": func() (kadm.ListedOffsets, error) { return admin.ListStartOffsets(ctx, asked.Topic) },
		"latest":   func() (kadm.ListedOffsets, error) { return admin.ListEndOffsets(ctx, asked.Topic) },
	} {
		listed, err := ask()
		if err != nil {
			return nil, err
		}
		one, _ := listed.Lookup(asked.Topic, asked.Partition)
		if one.Err != nil {
			return nil, one.Err
		}
		said[name] = one.Offset
	}
	// kadm asks once more for the end where a time has no record behind it, and shows that as timestamp -1.
	listed, err := admin.ListOffsetsAfterMilli(ctx, asked.Time, asked.Topic)
	if err != nil {
		return nil, err
	}
	one, _ := listed.Lookup(asked.Topic, asked.Partition)
	said["at"] = one.Offset
	if one.Timestamp == -1 {
		said["at"] = -1
	}
	return said, one.Err
}

func produce(ctx context.Context, asked lines.Request) (lines.Answer, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	options := []kgo.Opt{
		kgo.SeedBrokers(asked.Seeds()...),
		kgo.ProducerBatchCompression(codecs[asked.Codec]),
		kgo.RequiredAcks(acks[asked.Acks]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(lines.RequestBytesMax),
	}
	if !asked.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	sent := make([]*kgo.Record, len(asked.Records))
	for i, one := range asked.Records {
		sent[i] = &kgo.Record{Topic: asked.Topic, Partition: one.Partition, Key: one.Key, Value: one.Value}
		if one.Timestamp != nil {
			sent[i].Timestamp = time.UnixMilli(*one.Timestamp)
		}
		for _, pair := range one.Headers {
			sent[i].Headers = append(sent[i].Headers, kgo.RecordHeader{Key: pair.Name, Value: pair.Value})
		}
	}
	if err := client.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(sent))
	for i, one := range sent {
		offsets[i] = one.Offset
	}
	return lines.Answer{"offsets": offsets}, nil
}

func read(ctx context.Context, asked lines.Request) (lines.Answer, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(asked.Seeds()...))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	visits := [][]lines.Record{}
	for _, one := range asked.Visits {
		where := kgo.NewOffset()
		if one.Time != nil {
			where = where.AfterMilli(*one.Time)
		} else {
			where = where.At(*one.Offset)
		}
		assigned := map[int32]kgo.Offset{}
		for _, partition := range asked.Assigned {
			assigned[partition] = where
		}
		client.RemoveConsumePartitions(map[string][]int32{asked.Topic: asked.Assigned})
		client.AddConsumePartitions(map[string]map[int32]kgo.Offset{asked.Topic: assigned})
		records := []lines.Record{}
		for len(records) < one.Count && ctx.Err() == nil {
			fetched := client.PollFetches(ctx)
			if err := fetched.Err0(); err != nil && ctx.Err() == nil {
				return nil, err
			}
			for _, failed := range fetched.Errors() {
				if ctx.Err() == nil {
					return nil, failed.Err
				}
			}
			fetched.EachRecord(func(got *kgo.Record) {
				if len(records) < one.Count {
					records = append(records, shown(got))
				}
			})
		}
		visits = append(visits, records)
	}
	return lines.Answer{"visits": visits}, nil
}

func shown(got *kgo.Record) lines.Record {
	at := got.Timestamp.UnixMilli()
	headers := []lines.Header{}
	for _, one := range got.Headers {
		headers = append(headers, lines.Header{Name: one.Key, Value: one.Value})
	}
	return lines.Record{Partition: got.Partition, Offset: got.Offset, Timestamp: &at, Key: got.Key, Value: got.Value, Headers: headers}
}
