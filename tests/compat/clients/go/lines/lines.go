// Package lines is what a program around a client hears and says; tests/compat/clients/__init__.py describes it.
package lines

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// Patience is how long a client may take for one request.
const Patience = 60 * time.Second

// RequestBytesMax is more than what a broker takes by default, so that the broker is the one who refuses.
const RequestBytesMax = 8 << 20

type Record struct {
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp *int64   `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers"`
}

// Header is a pair of a name and bytes.
type Header struct {
	Name  string
	Value []byte
}

func (h *Header) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&h.Name, &h.Value})
}

func (h Header) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{h.Name, h.Value})
}

type Visit struct {
	Offset *int64 `json:"offset"`
	Time   *int64 `json:"time"`
	Count  int    `json:"count"`
}

type Request struct {
	Do         string            `json:"do"`
	Bootstrap  string            `json:"bootstrap"`
	Topic      string            `json:"topic"`
	Partitions int32             `json:"partitions"`
	Assigned   []int32           `json:"assigned"`
	Partition  int32             `json:"partition"`
	Config     map[string]string `json:"config"`
	Time       int64             `json:"time"`
	Codec      string            `json:"codec"`
	Acks       string            `json:"acks"`
	Idempotent bool              `json:"idempotent"`
	Records    []Record          `json:"records"`
	Visits     []Visit           `json:"visits"`
}

func (asked Request) Seeds() []string {
	return strings.Split(asked.Bootstrap, ",")
}

type Answer map[string]any

// Serve answers requests until nobody asks any more. codeOf finds Kafka's number in an error of the client, or -1.
func Serve(module string, do func(Request) (Answer, error), codeOf func(error) int16) {
	say(Answer{"version": version(module)})
	heard := bufio.NewReader(os.Stdin)
	for {
		line, err := heard.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked Request
		if err := json.Unmarshal(line, &asked); err != nil {
			panic(err)
		}
		said, err := do(asked)
		if err != nil {
			said = Answer{"error": err.Error(), "code": codeOf(err)}
		}
		say(said)
	}
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, one := range info.Deps {
		if one.Path == module {
			return strings.TrimPrefix(one.Version, "v")
		}
	}
	return "unknown"
}

func say(what Answer) {
	data, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", data)
}
