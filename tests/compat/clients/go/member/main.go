// franz-go as a member of a group; what it says is described in tests/compat/members/__init__.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var saying sync.Mutex

func say(what map[string]any) {
	saying.Lock()
	defer saying.Unlock()
	line, _ := json.Marshal(what)
	fmt.Println(string(line))
}

func sayPartitions(name string, places map[string][]int32) {
	numbers := []int32{}
	for _, each := range places {
		numbers = append(numbers, each...)
	}
	sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
	say(map[string]any{name: numbers})
}

func main() {
	bootstrap, topic, group := os.Args[1], os.Args[2], os.Args[3]
	balancer := kgo.RangeBalancer()
	if os.Args[4] == "cooperative-sticky" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ClientID("franz-go"),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.Balancers(balancer),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, places map[string][]int32) {
			sayPartitions("assigned", places)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, places map[string][]int32) {
			sayPartitions("revoked", places)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, places map[string][]int32) {
			sayPartitions("revoked", places)
		}),
	)
	if err != nil {
		panic(err)
	}
	for ctx.Err() == nil {
		polling, done := context.WithTimeout(ctx, 200*time.Millisecond)
		records := client.PollRecords(polling, 50).Records()
		done()
		if len(records) == 0 {
			continue
		}
		read := map[string]int64{}
		for _, record := range records {
			value, _ := strconv.Atoi(string(record.Value))
			say(map[string]any{"read": []int64{int64(record.Partition), record.Offset, int64(value)}})
			read[strconv.Itoa(int(record.Partition))] = record.Offset + 1
		}
		if err := client.CommitRecords(context.Background(), records...); err != nil {
			say(map[string]any{"failed": err.Error()})
		} else {
			say(map[string]any{"committed": read})
		}
	}
	client.Close()
}
