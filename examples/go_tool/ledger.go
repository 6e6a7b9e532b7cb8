package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Payment is one file of the ledger, named by its key.
type Payment struct {
	Key string `json:"key"`
	Refund
	BookedAt time.Time `json:"booked_at"`
}

// book records a refund under a key. A key that is booked already keeps its payment, which is
// returned.
func book(key string, request RefundRequest) (*Payment, error) {
	folder := os.Getenv("PAYMENTS_LEDGER")
	if folder == "" {
		folder = "ledger"
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	place := filepath.Join(folder, fmt.Sprintf("%x.json", sha256.Sum256([]byte(key))))
	refund := Refund{RefundID: fmt.Sprintf("R-%x", time.Now().UnixNano()), RefundRequest: request}
	if err := claim(folder, place, Payment{Key: key, Refund: refund, BookedAt: time.Now()}); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(place)
	if err != nil {
		return nil, err
	}
	payment := new(Payment)
	return payment, json.Unmarshal(text, payment)
}

// claim writes a payment to its place, unless one is there. Link is the one step that decides:
// a file is there whole or not at all.
func claim(folder, place string, payment Payment) error {
	draft, err := os.CreateTemp(folder, "draft-*")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	written := json.NewEncoder(draft).Encode(payment)
	if err := errors.Join(written, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	if err := os.Link(draft.Name(), place); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return sync(folder)
}

// sync makes the folder's new names survive a power cut.
func sync(folder string) error {
	opened, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
