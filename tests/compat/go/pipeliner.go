// Transactions with many small batches in flight, through franz-go: what pipeliner.py says for confluent-kafka.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	Topic        string `json:"topic"`
	ID           string `json:"id"`
	Transactions int    `json:"transactions"`
	Records      int    `json:"records"`
}

func main() {
	var asked options
	if err := json.Unmarshal([]byte(os.Args[2]), &asked); err != nil {
		fail(err)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.TransactionalID(asked.ID),
		kgo.TransactionTimeout(time.Minute),
		kgo.ProducerLinger(0),
	)
	if err != nil {
		fail(err)
	}
	for number := 0; number < asked.Transactions; number++ {
		if err := run(client, asked, number); err != nil {
			fail(err)
		}
	}
	client.Close()
	fmt.Printf("{\"ok\": %d}\n", asked.Transactions*asked.Records)
}

// run sends one transaction and commits it.
func run(client *kgo.Client, asked options, number int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	failed := make(chan error, asked.Records)
	for at := 0; at < asked.Records; at++ {
		serial := number*asked.Records + at
		record := &kgo.Record{
			Topic: asked.Topic,
			Value: fmt.Appendf(nil, "%0100d", serial),
		}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				failed <- err
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
	}
	return client.EndTransaction(ctx, kgo.TryCommit)
}

func fail(err error) {
	content, _ := json.Marshal(map[string]string{"refused": err.Error()})
	fmt.Println(string(content))
	os.Exit(1)
}
