// Package payments is documented in its main file.
package payments
