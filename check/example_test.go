package check_test

import (
	"fmt"

	"github.com/retryproof/retryproof/check"
)

func Example() {
	config, err := check.Parse([]byte(`{
		"client": {"timeout": "10s", "retry_horizon": "2h"},
		"server": {"stamp": "pickup", "wait_before_stamp": "11980ms", "guard": "window", "guard_memory": "1h"}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range config.Report().Findings {
		fmt.Println(f.Severity, f.Code, "|", f.Formula, "|", f.Numbers)
	}
	// Output:
	// refuse formula-1 | server.guard_memory ≥ client.retry_horizon | 1h < 2h
	// refuse formula-2 | server.deadline + server.wait_before_stamp < client.timeout | 5s + 11.98s = 16.98s ≥ 10s
}
