// Package embedded runs a NATS server with JetStream inside the process, for the
// queue of package queue/nats without a server to look after. It is a module of
// its own, so that a program with a remote server does not contain one.
//
// It promises that a message whose Send returned nil has been synced to disk:
// every write is, before it is acknowledged. That costs about a factor of ten in
// throughput against JetStream's default (docs/decisions/queue-nats-sync.md has
// the figures and the benchmark that made them); [Config].SyncInterval buys it
// back at the price of losing the last acknowledged messages at a power failure.
//
// It does not promise to survive the loss of the disk: there is one copy. A crash
// of the process loses nothing that was acknowledged to a sender; the newest
// acknowledgements of receivers may be lost, and their messages come again.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/retryproof/retryproof/queue/nats"
)

// Config of a [Server]. Dir must be set, the rest works as zero values.
type Config struct {
	// Dir is the folder of the server's data. It is created if missing, and one
	// process may use it at a time. Defaults to nothing: it must be set.
	Dir string
	// Listen is a host:port at which other processes may connect, without a
	// password. Port 0 takes a free one. Defaults to "": only this process can.
	Listen string
	// SyncInterval, when positive, lets the server acknowledge before it syncs, and
	// sync that often. Acknowledged messages of that time are lost at a power
	// failure or a kernel crash. Defaults to 0, which syncs every write first.
	SyncInterval time.Duration
	// MaxStoreBytes is how much disk the server may fill. Then a Send is refused
	// and nothing is lost. Defaults to 0, the server's choice: three quarters of
	// what is free.
	MaxStoreBytes int64
	// StartTimeout is how long the start may take, the recovery of the data
	// included. Defaults to 30 seconds.
	StartTimeout time.Duration
	// Log is told what the server logs. Defaults to a logger that writes nothing.
	Log *slog.Logger
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("Dir must be set"))
	}
	if c.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			errs = append(errs, fmt.Errorf("Listen must be host:port: %w", err))
		}
	}
	if c.SyncInterval < 0 {
		errs = append(errs, fmt.Errorf("SyncInterval must be >= 0, is %v", c.SyncInterval))
	}
	if c.MaxStoreBytes < 0 {
		errs = append(errs, fmt.Errorf("MaxStoreBytes must be >= 0, is %d", c.MaxStoreBytes))
	}
	if c.StartTimeout < 0 {
		errs = append(errs, fmt.Errorf("StartTimeout must be >= 0, is %v", c.StartTimeout))
	}
	return errors.Join(errs...)
}

// Server is a running server. Use [Start] to make one and Close to end it.
type Server struct {
	srv  *server.Server
	lock *os.File
}

var _ natsgo.InProcessConnProvider = (*Server)(nil)

// Start starts a server and returns when it takes connections. A folder that
// another process uses is refused.
func Start(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("queue/nats/embedded: %w", err)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("queue/nats/embedded: %w", err)
	}
	lock, err := lockFolder(filepath.Join(cfg.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("queue/nats/embedded: %w", err)
	}
	srv, err := start(cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("queue/nats/embedded: %w", err), lock.Close())
	}
	return &Server{srv, lock}, nil
}

func start(cfg Config) (*server.Server, error) {
	o := &server.Options{
		ServerName:        "retryproof",
		JetStream:         true,
		StoreDir:          cfg.Dir,
		SyncAlways:        cfg.SyncInterval == 0,
		SyncInterval:      cfg.SyncInterval,
		JetStreamMaxStore: cfg.MaxStoreBytes,
		DontListen:        cfg.Listen == "",
		NoSigs:            true,
		NoLog:             cfg.Log == nil,
	}
	if cfg.Listen != "" {
		host, port, err := net.SplitHostPort(cfg.Listen)
		if err != nil {
			return nil, err
		}
		if o.Port, err = strconv.Atoi(port); err != nil {
			return nil, fmt.Errorf("Listen must end in a port number: %w", err)
		}
		if o.Port == 0 {
			o.Port = server.RANDOM_PORT
		}
		o.Host = host
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	if cfg.Log != nil {
		srv.SetLoggerV2(logger{cfg.Log}, false, false, false)
	}
	srv.Start()
	timeout := cfg.StartTimeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	if !srv.ReadyForConnections(timeout) || !srv.JetStreamEnabled() {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, fmt.Errorf("the server was not ready after %v: is the folder %s writable and its data whole?", timeout, cfg.Dir)
	}
	return srv, nil
}

// InProcessConn is a connection without a network, for natsgo.InProcessServer.
func (s *Server) InProcessConn() (net.Conn, error) { return s.srv.InProcessConn() }

// URL is where other processes can connect, "" when the server does not listen.
func (s *Server) URL() string {
	if s.srv.Addr() == nil {
		return ""
	}
	return s.srv.ClientURL()
}

// Open opens a queue on the server over an in-process connection.
func (s *Server) Open(ctx context.Context, cfg nats.Config, options ...natsgo.Option) (*nats.Queue, error) {
	return nats.Dial(ctx, "", cfg, append(options, natsgo.InProcessServer(s))...)
}

// Close stops the server and waits until its data are written and the folder is
// free. Close the queues first.
func (s *Server) Close() error {
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	return s.lock.Close()
}

// logger writes the server's lines to slog.
type logger struct{ log *slog.Logger }

func (l logger) Noticef(format string, v ...any) { l.log.Info(fmt.Sprintf(format, v...)) }
func (l logger) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l logger) Errorf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l logger) Fatalf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l logger) Debugf(string, ...any)           {}
func (l logger) Tracef(string, ...any)           {}
