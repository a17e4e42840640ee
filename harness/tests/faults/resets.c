/* Connections that are reset in batches, as fast as they can be made: resets ADDRESS PORT SECONDS BATCH MARK.
 *
 * Each batch logs in as `peer`, and one more connection as `stranger-N`, in a slot that a reset connection had. All but it are
 * reset while events for them are on their way. What the stranger hears must not have MARK in it. Prints the connections that were
 * reset, and the strangers that heard MARK. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

static struct sockaddr_in server;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* `turn` chooses the source address, so that no port is asked for again while the kernel remembers it. */
static int log_in(const char *id, unsigned turn) {
    int socket_ = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in source = {.sin_family = AF_INET};
    source.sin_addr.s_addr = htonl(0x7f030001u + turn % 200);
    setsockopt(socket_, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (bind(socket_, (struct sockaddr *)&source, sizeof source) ||
        connect(socket_, (struct sockaddr *)&server, sizeof server)) {
        perror("resets: connect");
        exit(1);
    }
    char request[128];
    int length = snprintf(request, sizeof request, "GET /events/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", id);
    if (send(socket_, request, length, MSG_NOSIGNAL) != length) {
        perror("resets: send");
        exit(1);
    }
    return socket_;
}

/* What has come so far, in which `mark` is looked for. */
static int heard(int socket_, const char *mark) {
    static char text[1 << 16];
    ssize_t count = recv(socket_, text, sizeof text - 1, MSG_DONTWAIT);
    text[count > 0 ? count : 0] = 0;
    return strstr(text, mark) != NULL;
}

int main(int count, char **words) {
    if (count != 6)
        return 2;
    server.sin_family = AF_INET;
    inet_pton(AF_INET, words[1], &server.sin_addr);
    server.sin_port = htons(atoi(words[2]));
    double until = now() + atof(words[3]);
    int batch = atoi(words[4]);
    int *sockets = calloc(batch, sizeof *sockets);
    long resets = 0, deceived = 0;
    for (unsigned turn = 0; now() < until || turn < 2; turn++) {
        char name[32];
        for (int each = 0; each < batch; each++)
            sockets[each] = log_in("peer", turn);
        struct linger reset = {1, 0};
        for (int each = 0; each < batch; each++) {
            setsockopt(sockets[each], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            close(sockets[each]);
        }
        snprintf(name, sizeof name, "stranger-%u", turn);
        int stranger = log_in(name, turn);
        resets += batch;
        /* A batch later it has been sent whatever was on its way to the one before it in its slot. */
        static int last = -1;
        if (last >= 0) {
            deceived += heard(last, words[5]);
            close(last);
        }
        last = stranger;
    }
    printf("%ld %ld\n", resets, deceived);
    return 0;
}
