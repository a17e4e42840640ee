// A proxy as Go's standard library suggests it: io.Copy both ways, which splices where it can.
// Usage: relay LISTEN TO
package main

import (
	"io"
	"log"
	"net"
	"os"
)

func main() {
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go relay(client.(*net.TCPConn), os.Args[2])
	}
}

func relay(client *net.TCPConn, to string) {
	defer client.Close()
	connection, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	backend := connection.(*net.TCPConn)
	defer backend.Close()
	go func() {
		io.Copy(backend, client)
		backend.CloseWrite()
	}()
	io.Copy(client, backend)
	client.CloseWrite()
}
