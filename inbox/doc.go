// Package inbox is documented in its main file.
package inbox
