// A producer through franz-go: numbered records until its input ends. Speaks the words of writer.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	Topic string  `json:"topic"`
	Keys  int     `json:"keys"`
	PaceS float64 `json:"pace_s"`
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
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.RecordDeliveryTimeout(3*time.Minute),
		kgo.ProducerLinger(0),
	)
	if err != nil {
		panic(err)
	}
	ended := make(chan struct{})
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		close(ended)
	}()
	pace := time.NewTicker(time.Duration(asked.PaceS * float64(time.Second)))
	for number := 0; ; number++ {
		select {
		case <-ended:
			_ = client.Flush(context.Background())
			client.Close()
			return
		case <-pace.C:
			send(client, asked, number)
		}
	}
}

// send writes one record and tells what became of it.
func send(client *kgo.Client, asked options, number int) {
	record := &kgo.Record{
		Topic: asked.Topic,
		Key:   fmt.Appendf(nil, "%d", number%asked.Keys),
		Value: fmt.Appendf(nil, "%d", number),
	}
	client.Produce(context.Background(), record, func(done *kgo.Record, err error) {
		if err != nil {
			say("failed", err.Error())
			return
		}
		say("acked", []int64{int64(done.Partition), done.Offset, int64(number)})
	})
}
