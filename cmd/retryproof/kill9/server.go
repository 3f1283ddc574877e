package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// server is one life after another of the process under test.
type server struct {
	options
	process *exec.Cmd
	exited  chan error
}

// start starts a life and waits until it is ready.
func (s *server) start(ctx context.Context) error {
	args := []string{"serve", "--listen", s.listen, "--data", s.data, "--log-level", "error"}
	if s.store != "" {
		args = append(args, "--store", s.store)
	}
	if s.queue != "" {
		args = append(args, "--queue", s.queue)
	}
	s.process = exec.Command(s.binary, args...)
	s.process.Stderr = os.Stderr
	if err := s.process.Start(); err != nil {
		return err
	}
	s.exited = make(chan error, 1)
	go func() { s.exited <- s.process.Wait() }()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		var ready struct{ Status string }
		if getJSON(ctx, "http://"+s.listen+"/readyz", &ready) == nil && ready.Status == "ready" {
			return nil
		}
		select {
		case err := <-s.exited:
			return fmt.Errorf("the server ended by itself: %v", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("the server was not ready within 30 s")
}

// kill ends the life without warning (SIGKILL).
func (s *server) kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill()
	<-s.exited
	s.process = nil
}

func getJSON(ctx context.Context, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
