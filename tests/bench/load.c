/* The client at the near end of every measurement. It must never be what is measured, so it only counts messages.
 *
 *   load ws HOST PORT PATH      WebSocket (the mask is all zero: legal, and the relay unmasks as always)
 *   load tcp HOST PORT          lines over TCP
 *   load exec COMMAND...        lines over the pipes of a child: a mirror, or the bare agent
 *
 * Reads one command a line on stdin and answers each with one line of JSON on stdout:
 *   open N                      open N links; each says initialize and session/new
 *   turns SIZE COUNT            on every link: COUNT round trips of SIZE bytes, one after the other
 *   flood SIZE COUNT            on every link: the agent writes COUNT updates of SIZE bytes, each by itself
 *   packed SIZE COUNT           the same, many to a write
 *   sink SIZE COUNT             on every link: write COUNT notifications of SIZE bytes, then one round trip
 *   hold COUNT                  on the first link: COUNT requests that stay unanswered, then one round trip
 *   stall SIZE COUNT            on the first link: ask for a flood and read nothing of it
 *   drain COUNT                 read what `stall` left
 *   close                       close every link
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LINKS = 4096, READ_SIZE = 1 << 20, START_SIZE = 192, PATIENCE_SECONDS = 120, WRITE_BLOCK = 65536 };
enum { TEXT = 1, CLOSE = 8, PING = 9, PONG = 10 };

typedef struct link {
    int in, out;
    pid_t child;
    unsigned char header[14]; /* of the WebSocket frame that is being read */
    size_t header_size;
    uint64_t left; /* bytes of its payload still to come */
    char start[START_SIZE + 1]; /* of the message that is being read, or of the last one */
    size_t start_size;
    long awaited; /* messages until the running command is done on this link */
    long turns;
    double asked;
} link_t;

static char **target;
static int is_websocket;
static link_t links[MAX_LINKS];
static int link_count;
static long next_id = 2;
static char *read_buffer;
static double *latencies;
static long latency_count, message_count, byte_count;

static void fail(const char *what, const char *detail) {
    for (char *at = (char *)detail; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ') *at = '\'';
    printf("{\"error\": \"%s: %s\"}\n", what, detail);
    fflush(stdout);
    _exit(3);
}

static void system_failure(const char *what) {
    char text[128];
    snprintf(text, sizeof text, "%s", strerror(errno));
    fail(what, text);
}

static void out_of_patience(int signal) {
    (void)signal;
    fail("no progress; the last message began", links[0].start);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void write_all(link_t *link, const char *data, size_t size) {
    while (size) {
        ssize_t done = write(link->out, data, size);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) system_failure("write");
        data += done;
        size -= (size_t)done;
    }
}

/* Appends one message to `at` in the link's framing and returns its end. Needs 14 bytes more than `size`. */
static char *framed(char *at, const char *message, size_t size, int opcode) {
    if (is_websocket) {
        *at++ = (char)(0x80 | opcode);
        int long_form = size > 65535, middle_form = size > 125;
        *at++ = (char)(0x80 | (long_form ? 127 : middle_form ? 126 : (int)size));
        for (int shift = long_form ? 56 : middle_form ? 8 : -8; shift >= 0; shift -= 8) *at++ = (char)(size >> shift);
        memset(at, 0, 4);
        at += 4;
    }
    memcpy(at, message, size);
    at += size;
    if (!is_websocket) *at++ = '\n';
    return at;
}

static void send_message(link_t *link, const char *message, size_t size, int opcode) {
    char *frame = malloc(size + 16);
    char *end = framed(frame, message, size, opcode);
    write_all(link, frame, (size_t)(end - frame));
    free(frame);
}

static char *padded(size_t size, const char *head, const char *tail, size_t *length) {
    size_t fixed = strlen(head) + strlen(tail);
    *length = size > fixed ? size : fixed;
    char *message = malloc(*length + 1);
    memset(message, 'x', *length);
    memcpy(message, head, strlen(head));
    memcpy(message + *length - strlen(tail), tail, strlen(tail) + 1);
    return message;
}

static void send_prompt(link_t *link, const char *orders, size_t size) {
    char head[256];
    size_t length;
    snprintf(head, sizeof head,
             "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"s\","
             "\"prompt\":[{\"type\":\"text\",\"text\":\"%s",
             next_id++, orders);
    char *message = padded(size, head, "\"}]}}", &length);
    send_message(link, message, length, TEXT);
    free(message);
}

static void send_text(link_t *link, const char *message) { send_message(link, message, strlen(message), TEXT); }

static void message_ended(link_t *link) {
    link->start[link->start_size] = 0;
    link->start_size = 0;
    link->awaited--;
    message_count++;
}

static void message_bytes(link_t *link, const char *data, size_t size) {
    size_t wanted = START_SIZE - link->start_size;
    if (wanted > size) wanted = size;
    memcpy(link->start + link->start_size, data, wanted);
    link->start_size += wanted;
}

static size_t header_length(const link_t *link) {
    if (link->header_size < 2) return 2;
    int form = link->header[1] & 0x7f;
    return form == 127 ? 10 : form == 126 ? 4 : 2;
}

static void frame_begins(link_t *link) {
    int form = link->header[1] & 0x7f;
    link->left = (uint64_t)form;
    if (form >= 126) {
        link->left = 0;
        for (size_t n = 2; n < link->header_size; n++) link->left = link->left << 8 | link->header[n];
    }
}

static void frame_ended(link_t *link) {
    int opcode = link->header[0] & 0x0f;
    link->header_size = 0;
    if (opcode == CLOSE) fail("closed by the relay", link->start_size > 2 ? link->start + 2 : link->start);
    if (opcode == PING) send_message(link, "", 0, PONG);
    else if (opcode != PONG && link->header[0] & 0x80) message_ended(link);
}

static void websocket_bytes(link_t *link, const char *data, size_t size) {
    for (;;) {
        if (link->header_size < 2 || link->header_size < header_length(link)) {
            if (!size) return;
            link->header[link->header_size++] = (unsigned char)*data++;
            size--;
            if (link->header_size < 2 || link->header_size < header_length(link)) continue;
            frame_begins(link);
        }
        size_t part = link->left < size ? (size_t)link->left : size;
        if ((link->header[0] & 0x0f) <= CLOSE) message_bytes(link, data, part);
        data += part;
        size -= part;
        link->left -= part;
        if (link->left) return;
        frame_ended(link);
    }
}

static void line_bytes(link_t *link, const char *data, size_t size) {
    while (size) {
        const char *end = memchr(data, '\n', size);
        size_t part = end ? (size_t)(end - data) : size;
        message_bytes(link, data, part);
        if (!end) return;
        message_ended(link);
        data += part + 1;
        size -= part + 1;
    }
}

static void read_some(link_t *link) {
    ssize_t got = read(link->in, read_buffer, READ_SIZE);
    if (got < 0 && errno == EINTR) return;
    if (got < 0) system_failure("read");
    if (got == 0) fail("the relay hung up; the last message began", link->start);
    byte_count += got;
    (is_websocket ? websocket_bytes : line_bytes)(link, read_buffer, (size_t)got);
}

static void check_answer(link_t *link) {
    if (!strstr(link->start, "\"result\"")) fail("not the answer that was awaited", link->start);
}

static int dial(const char *host, const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(host, port, &hints, &found)) fail("no such address", (char[]){"see the command line"});
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen)) system_failure("connect");
    freeaddrinfo(found);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

static void spawn(link_t *link) {
    int down[2], up[2];
    if (pipe2(down, O_CLOEXEC) || pipe2(up, O_CLOEXEC)) system_failure("pipe");
    link->child = fork();
    if (link->child == 0) {
        dup2(down[0], 0);
        dup2(up[1], 1);
        execvp(target[1], target + 1);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    link->out = down[1];
    link->in = up[0];
}

static void ask_upgrade(link_t *link) {
    char text[1024];
    int size = snprintf(text, sizeof text,
                        "GET %s HTTP/1.1\r\nHost: %s:%s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Key: YWNwcmVtb3RlIGJlbmNoLg==\r\nSec-WebSocket-Version: 13\r\n\r\n",
                        target[3], target[1], target[2]);
    write_all(link, text, (size_t)size);
}

static void await_upgrade(link_t *link) {
    char text[4096];
    size_t have = 0;
    do {
        if (have == sizeof text - 1 || read(link->in, text + have, 1) != 1) system_failure("upgrade");
        text[++have] = 0;
    } while (!strstr(text + (have > 4 ? have - 4 : 0), "\r\n\r\n"));
    if (strncmp(text, "HTTP/1.1 101", 12)) fail("refused", text);
}

static void await_messages(link_t *link, long count) {
    link->awaited = count;
    while (link->awaited > 0) read_some(link);
    check_answer(link);
}

/* Reads on every link until none awaits anything; `complete` may make a link await more. */
static void run(void (*complete)(link_t *)) {
    int busy = link_count;
    if (busy == 1) {
        while (links[0].awaited > 0) {
            read_some(&links[0]);
            if (links[0].awaited == 0) complete(&links[0]);
        }
        return;
    }
    int poll = epoll_create1(EPOLL_CLOEXEC);
    for (int n = 0; n < link_count; n++)
        epoll_ctl(poll, EPOLL_CTL_ADD, links[n].in, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &links[n]});
    while (busy) {
        struct epoll_event events[256];
        int ready = epoll_wait(poll, events, 256, -1);
        for (int n = 0; n < ready; n++) {
            link_t *link = events[n].data.ptr;
            read_some(link);
            if (link->awaited > 0) continue;
            complete(link);
            if (link->awaited <= 0) busy--;
        }
    }
    close(poll);
}

static void open_links(int count) {
    for (int n = 0; n < count; n++) {
        link_t *link = &links[link_count + n];
        memset(link, 0, sizeof *link);
        if (!strcmp(target[0], "exec")) spawn(link);
        else link->in = link->out = dial(target[1], target[2]);
        if (is_websocket) ask_upgrade(link);
    }
    for (int n = 0; is_websocket && n < count; n++) await_upgrade(&links[link_count + n]);
    for (int n = 0; n < count; n++)
        send_text(&links[link_count + n],
                  "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,"
                  "\"clientCapabilities\":{}}}");
    for (int n = 0; n < count; n++) {
        link_t *link = &links[link_count + n];
        await_messages(link, 1);
        send_text(link, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/new\",\"params\":{\"cwd\":\"/\","
                        "\"mcpServers\":[]}}");
    }
    for (int n = 0; n < count; n++) await_messages(&links[link_count + n], 1);
    link_count += count;
}

static size_t turn_size;

static void next_turn(link_t *link) {
    link->awaited = 1;
    link->asked = now();
    send_prompt(link, "echo ", turn_size);
}

static void turn_complete(link_t *link) {
    check_answer(link);
    latencies[latency_count++] = now() - link->asked;
    if (--link->turns > 0) next_turn(link);
}

static void turns(size_t size, long count) {
    turn_size = size;
    latencies = realloc(latencies, sizeof *latencies * (size_t)(count * link_count));
    for (int n = 0; n < link_count; n++) {
        links[n].turns = count;
        next_turn(&links[n]);
    }
    run(turn_complete);
}

static void flood(const char *manner, size_t size, long count) {
    char orders[64];
    snprintf(orders, sizeof orders, "%s %ld %zu", manner, count, size);
    for (int n = 0; n < link_count; n++) {
        links[n].awaited = count + 1;
        send_prompt(&links[n], orders, 0);
    }
    run(check_answer);
}

static void write_block(const char *message, size_t length, long count) {
    size_t room = length + 16 > WRITE_BLOCK ? length + 16 : WRITE_BLOCK;
    char *block = malloc(room);
    for (int n = 0; n < link_count; n++) {
        char *end = block;
        for (long sent = 0; sent < count; sent++) {
            if ((size_t)(end - block) + length + 16 > room) {
                write_all(&links[n], block, (size_t)(end - block));
                end = block;
            }
            end = framed(end, message, length, TEXT);
        }
        write_all(&links[n], block, (size_t)(end - block));
    }
    free(block);
}

static void sink(size_t size, long count) {
    size_t length;
    char *message = padded(size, "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"s\","
                                 "\"_meta\":{\"p\":\"", "\"}}}", &length);
    write_block(message, length, count);
    free(message);
    turns(0, 1);
}

static void hold(long count) {
    for (; count > 0; count--) send_prompt(&links[0], "hold", 0);
    await_messages((next_turn(&links[0]), &links[0]), 1);
}

static void stall(size_t size, long count) {
    char orders[64];
    snprintf(orders, sizeof orders, "flood %ld %zu", count, size);
    send_prompt(&links[0], orders, 0);
}

static void close_links(void) {
    for (int n = 0; n < link_count; n++) {
        if (is_websocket) send_message(&links[n], "\x03\xe8", 2, CLOSE);
        close(links[n].out);
        if (links[n].in != links[n].out && !links[n].child) close(links[n].in);
    }
    for (int n = 0; n < link_count; n++) {
        if (!links[n].child) continue;
        while (read(links[n].in, read_buffer, READ_SIZE) > 0) continue;
        close(links[n].in);
        waitpid(links[n].child, NULL, 0);
    }
    link_count = 0;
}

static int ascending(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

static void report(double seconds) {
    double median = 0;
    if (latency_count) {
        qsort(latencies, (size_t)latency_count, sizeof *latencies, ascending);
        median = latencies[latency_count / 2];
    }
    printf("{\"seconds\": %.9f, \"messages\": %ld, \"bytes\": %ld, \"median\": %.9f}\n", seconds, message_count,
           byte_count, median);
    fflush(stdout);
}

static int perform(const char *command) {
    long a = 0, b = 0;
    char word[16] = "";
    int given = sscanf(command, "%15s %ld %ld", word, &a, &b);
    if (!strcmp(word, "open") && given == 2 && a > 0 && link_count + a <= MAX_LINKS) open_links((int)a);
    else if (!strcmp(word, "turns") && given == 3 && b > 0) turns((size_t)a, b);
    else if ((!strcmp(word, "flood") || !strcmp(word, "packed")) && given == 3) flood(word, (size_t)a, b);
    else if (!strcmp(word, "sink") && given == 3) sink((size_t)a, b);
    else if (!strcmp(word, "hold") && given == 2) hold(a);
    else if (!strcmp(word, "stall") && given == 3) stall((size_t)a, b);
    else if (!strcmp(word, "drain") && given == 2) await_messages(&links[0], a);
    else if (!strcmp(word, "close") && given == 1) close_links();
    else return 0;
    return 1;
}

int main(int count, char **arguments) {
    target = arguments + 1;
    is_websocket = count == 5 && !strcmp(target[0], "ws");
    if (!is_websocket && !(count == 4 && !strcmp(target[0], "tcp")) && !(count > 2 && !strcmp(target[0], "exec")))
        return 2;
    read_buffer = malloc(READ_SIZE);
    signal(SIGALRM, out_of_patience);
    signal(SIGPIPE, SIG_IGN);
    char command[256];
    while (fgets(command, sizeof command, stdin)) {
        latency_count = message_count = byte_count = 0;
        alarm(PATIENCE_SECONDS);
        double began = now();
        if (!perform(command)) fail("unknown command", command);
        alarm(0);
        report(now() - began);
    }
    close_links();
    return 0;
}
