// Package outbox is documented in its main file.
package outbox
