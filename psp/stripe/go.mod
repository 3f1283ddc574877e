module github.com/retryproof/retryproof/psp/stripe

go 1.26.0

replace github.com/retryproof/retryproof => ../..

require (
	github.com/retryproof/retryproof v0.0.0-00010101000000-000000000000
	github.com/stripe/stripe-go/v85 v85.0.0
)

require github.com/stretchr/testify v1.12.1 // indirect
