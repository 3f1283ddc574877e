// Package js embeds the browser client, so that a server can hand out the very
// file that is published.
package js

import "embed"

// Files holds retryproof.js, an ES module without dependencies.
//
//go:embed retryproof.js
var Files embed.FS
