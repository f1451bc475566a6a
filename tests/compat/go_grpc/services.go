// A client of the gRPC services, with stubs that protoc's Go plugins generate from proto/. Prints what it found as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	penstock "penstock/v1"
)

const (
	streamed = 10
	perBatch = 100
	total    = 3 + streamed*perBatch
)

type facts struct {
	Health     []string `json:"health"`
	Partitions int      `json:"partitions"`
	Offsets    []int64  `json:"offsets"`
	Answers    []string `json:"answers"`
	Read       int      `json:"read"`
	Distinct   int      `json:"distinct"`
	NullKeys   int      `json:"null_keys"`
	Header     []byte   `json:"header"`
	Lag        int64    `json:"lag"`
	Code       string   `json:"code"`
	Reason     string   `json:"reason"`
	Ended      string   `json:"ended"`
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func dial(address string) *grpc.ClientConn {
	channel, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	return channel
}

func main() {
	producer, consumer, topic := dial(os.Args[1]), dial(os.Args[2]), os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	found := &facts{}
	for _, channel := range []*grpc.ClientConn{producer, consumer} {
		found.Health = append(found.Health, health(ctx, channel))
	}
	write(ctx, producer, topic, found)
	read(ctx, consumer, topic, found)
	refuse(ctx, producer, found)
	check(json.NewEncoder(os.Stdout).Encode(found))
}

// health waits until the service reports SERVING.
func health(ctx context.Context, channel *grpc.ClientConn) string {
	watch, err := grpc_health_v1.NewHealthClient(channel).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	check(err)
	for {
		answer, err := watch.Recv()
		check(err)
		if answer.Status == grpc_health_v1.HealthCheckResponse_SERVING {
			return answer.Status.String()
		}
	}
}

func write(ctx context.Context, channel *grpc.ClientConn, topic string, found *facts) {
	topics := penstock.NewTopicsClient(channel)
	_, err := topics.CreateTopic(ctx, &penstock.CreateTopicRequest{Name: topic, Partitions: 3})
	check(err)
	described, err := topics.DescribeTopic(ctx, &penstock.DescribeTopicRequest{Name: topic})
	check(err)
	found.Partitions = len(described.Partitions)
	client := penstock.NewProducerClient(channel)
	response, err := client.Produce(ctx, &penstock.ProduceRequest{
		Topic: topic,
		Messages: []*penstock.Message{
			{Value: []byte("null key"), Partition: proto.Int32(0)},
			{Key: []byte{}, Value: []byte{}, Partition: proto.Int32(0)},
			{
				Key:        []byte("k"),
				Partition:  proto.Int32(0),
				RawHeaders: []*penstock.Header{{Name: "h", Value: []byte{0xff, 0}}, {Name: "h"}},
			},
		},
		AckLevel: penstock.AckLevel_ACK_LEVEL_ALL,
	})
	check(err)
	for _, outcome := range response.Outcomes {
		found.Offsets = append(found.Offsets, outcome.GetOffset())
	}
	publish(ctx, client, topic, found)
}

func publish(ctx context.Context, client penstock.ProducerClient, topic string, found *facts) {
	stream, err := client.Publish(ctx)
	check(err)
	for batch := range streamed {
		request := &penstock.ProduceRequest{Topic: topic, RequestId: fmt.Sprint(batch)}
		for index := range perBatch {
			value := fmt.Sprintf("%d-%d", batch, index)
			request.Messages = append(request.Messages, &penstock.Message{Key: []byte(value), Value: []byte(value)})
		}
		check(stream.Send(request))
	}
	check(stream.CloseSend())
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		check(err)
		if response.FailedCount == 0 {
			found.Answers = append(found.Answers, response.RequestId)
		}
	}
}

func read(ctx context.Context, channel *grpc.ClientConn, topic string, found *facts) {
	client := penstock.NewConsumerClient(channel)
	stream, err := client.Subscribe(ctx)
	check(err)
	start := &penstock.Start{Group: "go-" + topic, Topics: []string{topic}}
	check(stream.Send(&penstock.SubscribeRequest{Request: &penstock.SubscribeRequest_Start{Start: start}}))
	distinct := map[string]bool{}
	for found.Read < total {
		response, err := stream.Recv()
		check(err)
		batch := response.GetBatch()
		if batch == nil {
			continue
		}
		for _, message := range batch.Messages {
			found.Read++
			if message.Key == nil {
				found.NullKeys++
			}
			distinct[fmt.Sprintf("%d:%d", message.GetPartition(), message.Offset)] = true
			if len(message.RawHeaders) == 2 && message.RawHeaders[1].Value == nil {
				found.Header = message.RawHeaders[0].Value
			}
		}
		handled := &penstock.Handled{BatchId: batch.BatchId}
		check(stream.Send(&penstock.SubscribeRequest{Request: &penstock.SubscribeRequest_Handled{Handled: handled}}))
	}
	found.Distinct = len(distinct)
	check(stream.CloseSend())
	for err == nil {
		_, err = stream.Recv()
	}
	found.Ended = err.Error()
	offsets, err := client.GetOffsets(ctx, &penstock.GetOffsetsRequest{Group: start.Group})
	check(err)
	for _, one := range offsets.Offsets {
		found.Lag += one.GetLag()
	}
}

// refuse makes a call that fails, and reads why.
func refuse(ctx context.Context, channel *grpc.ClientConn, found *facts) {
	_, err := penstock.NewProducerClient(channel).Produce(ctx, &penstock.ProduceRequest{})
	refusal := status.Convert(err)
	found.Code = refusal.Code().String()
	for _, detail := range refusal.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			found.Reason = info.Reason
		}
	}
}
