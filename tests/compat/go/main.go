// The lock of go-zookeeper, moved by lines on standard input; what happens is told on standard output.
//
//	lock NAME       a client NAME takes the lock             -> NAME locked
//	unlock NAME     it gives the lock back                   -> NAME unlocked
//	write NAME      it adds a node beside the lock           -> NAME wrote
//	count NAME      how many nodes were added                -> NAME counts N
//
// Changes of a client's connection are told as "NAME StateDisconnected" and so on, and "BOTH" whenever two clients
// hold the lock at the same moment.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

var (
	mutex  sync.Mutex
	holder string
)

func say(format string, values ...any) {
	fmt.Printf(format+"\n", values...)
}

func takes(name string) {
	mutex.Lock()
	defer mutex.Unlock()
	if holder != "" && holder != name {
		say("BOTH %s %s", holder, name)
	}
	holder = name
}

func leaves(name string) {
	mutex.Lock()
	defer mutex.Unlock()
	if holder == name {
		holder = ""
	}
}

type client struct {
	name     string
	hosts    []string
	conn     *zk.Conn
	lock     *zk.Lock
	commands chan string
}

func newClient(name string, hosts []string) *client {
	made := &client{name: name, hosts: hosts, commands: make(chan string, 16)}
	made.connect()
	go func() {
		for command := range made.commands {
			if err := made.run(command); err != nil {
				say("%s failed %v", name, err)
			}
		}
	}()
	return made
}

func (c *client) connect() {
	conn, events, err := zk.Connect(c.hosts, 40*time.Second, zk.WithLogInfo(false))
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for event := range events {
			if event.Type == zk.EventSession {
				say("%s %s", c.name, event.State)
			}
		}
	}()
	c.conn = conn
	c.lock = zk.NewLock(conn, "/recipes/lock", zk.WorldACL(zk.PermAll))
}

// retry does what a program does when a connection breaks under a request: it asks again.
func retry(request func() error) error {
	for deadline := time.Now().Add(100 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := request()
		lost := errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer)
		if !lost || time.Now().After(deadline) {
			return err
		}
	}
}

func (c *client) run(command string) error {
	switch command {
	case "lock":
		// A lock that fails under a broken connection leaves its node in the queue, and only the end of its session
		// takes that away.
		for c.lock.Lock() != nil {
			c.conn.Close()
			time.Sleep(50 * time.Millisecond)
			c.connect()
		}
		takes(c.name)
		say("%s locked", c.name)
	case "unlock":
		leaves(c.name)
		if err := retry(c.lock.Unlock); err != nil {
			return err
		}
		say("%s unlocked", c.name)
	case "write":
		for _, parent := range []string{"/recipes", "/recipes/writes"} {
			err := retry(func() error {
				_, err := c.conn.Create(parent, nil, 0, zk.WorldACL(zk.PermAll))
				return err
			})
			if err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
		}
		path := fmt.Sprintf("/recipes/writes/%d", time.Now().UnixNano())
		err := retry(func() error {
			_, err := c.conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			return err
		})
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		say("%s wrote", c.name)
	case "count":
		if err := retry(func() error { _, err := c.conn.Sync("/recipes/writes"); return err }); err != nil {
			return err
		}
		var children []string
		err := retry(func() (err error) { children, _, err = c.conn.Children("/recipes/writes"); return err })
		if err != nil {
			return err
		}
		say("%s counts %d", c.name, len(children))
	default:
		say("unknown %s", command)
	}
	return nil
}

func main() {
	hosts := strings.Split(os.Args[1], ",")
	clients := map[string]*client{}
	say("ready")
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		words := strings.Fields(input.Text())
		if clients[words[1]] == nil {
			clients[words[1]] = newClient(words[1], hosts)
		}
		clients[words[1]].commands <- words[0]
	}
}
