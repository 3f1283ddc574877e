// Package browsertest drives the phone page in a headless Chromium. It is a
// module of its own, so that the root module needs the standard library only.
package browsertest
