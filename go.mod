module github.com/retryproof/retryproof

go 1.26.0
