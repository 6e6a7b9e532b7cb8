package main

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

type RefundRequest struct {
	OrderID string  `json:"order_id"`
	Amount  float64 `json:"amount"`
}

type Refund struct {
	RefundID string `json:"refund_id"`
	RefundRequest
}

// What was paid for each order, in euros.
var paid = map[string]float64{"1042": 249, "1057": 89.5}

// RefundOrder books a refund once, however often the activity is attempted.
func RefundOrder(ctx context.Context, request RefundRequest) (*Refund, error) {
	most, found := paid[request.OrderID]
	if !found {
		return nil, refused("There is no order %s.", request.OrderID)
	}
	if request.Amount > most {
		return nil, refused("Only %v was paid for order %s.", most, request.OrderID)
	}
	payment, err := book(idempotencyKey(ctx), request)
	if err != nil {
		return nil, err
	}
	if payment.RefundRequest != request {
		return nil, refused("Another refund was booked under this key: %s.", payment.RefundID)
	}
	return &payment.Refund, nil
}

// idempotencyKey is the same for every retry, on every worker, after every crash.
func idempotencyKey(ctx context.Context) string {
	info := activity.GetInfo(ctx)
	return info.WorkflowExecution.ID + "/" + info.ActivityID
}

// refused is an error that another attempt would end with as well.
func refused(format string, values ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, values...), "Refused", nil)
}
