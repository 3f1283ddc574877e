// Package resolve is documented in its main file.
package resolve
