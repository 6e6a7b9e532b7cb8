// The payments team's worker: its activity, on its task queue. It has no dependency on Holdfast.
package main

import (
	"log"
	"os"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

func main() {
	// An empty address is 127.0.0.1:7233.
	temporal, err := client.Dial(client.Options{HostPort: os.Getenv("TEMPORAL_ADDRESS")})
	if err != nil {
		log.Fatalln(err)
	}
	defer temporal.Close()
	payments := worker.New(temporal, "payments", worker.Options{})
	payments.RegisterActivity(RefundOrder)
	if err := payments.Run(worker.InterruptCh()); err != nil {
		log.Fatalln(err)
	}
}
