// Package notify is documented in its main file.
package notify
