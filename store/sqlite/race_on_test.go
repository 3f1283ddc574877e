//go:build race

package sqlite_test

// raceDetector makes SQLite, which is translated to Go, some 15 times slower.
const raceDetector = true
