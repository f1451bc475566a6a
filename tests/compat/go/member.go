// One member of a consumer group through franz-go, which commits automatically. Speaks the words of member.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	Group     string   `json:"group"`
	Topics    []string `json:"topics"`
	Assigned  [][2]any `json:"assigned"`
	Reset     string   `json:"reset"`
	SessionMs int      `json:"session_ms"`
}

var printing sync.Mutex

func say(name string, value any) {
	printing.Lock()
	defer printing.Unlock()
	content, _ := json.Marshal(map[string]any{name: value})
	fmt.Println(string(content))
}

func main() {
	var asked options
	if err := json.Unmarshal([]byte(os.Args[2]), &asked); err != nil {
		panic(err)
	}
	client, err := kgo.NewClient(settings(os.Args[1], asked)...)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		cancel()
	}()
	for ctx.Err() == nil {
		tell(client.PollFetches(ctx))
	}
	client.Close()
}

func settings(bootstrap string, asked options) []kgo.Opt {
	reset := kgo.NewOffset().AtStart()
	if asked.Reset == "none" {
		reset = kgo.NoResetOffset()
	}
	chosen := []kgo.Opt{kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ConsumeResetOffset(reset)}
	if len(asked.Assigned) > 0 {
		places := map[string]map[int32]kgo.Offset{}
		for _, one := range asked.Assigned {
			topic := one[0].(string)
			if places[topic] == nil {
				places[topic] = map[int32]kgo.Offset{}
			}
			places[topic][int32(one[1].(float64))] = kgo.NewOffset().At(0)
		}
		return append(chosen, kgo.ConsumePartitions(places))
	}
	return append(chosen,
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeTopics(asked.Topics...),
		kgo.SessionTimeout(time.Duration(asked.SessionMs)*time.Millisecond),
		kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.AutoCommitInterval(100*time.Millisecond),
	)
}

// tell says what was read. An error that the client retries by itself does not come here.
func tell(fetches kgo.Fetches) {
	fetches.EachError(func(topic string, partition int32, err error) {
		if !errors.Is(err, context.Canceled) {
			say("failed", fmt.Sprintf("%s-%d: %v", topic, partition, err))
		}
	})
	fetches.EachRecord(func(one *kgo.Record) {
		say("read", []any{one.Topic, one.Partition, one.Offset, string(one.Value)})
	})
}
