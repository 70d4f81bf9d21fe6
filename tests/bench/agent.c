/* The agent at the far end of every measurement: it must never be what is measured.
 *
 * Speaks just enough of ACP for typed relays (`initialize`, `session/new`, `session/prompt`). The text of a prompt
 * is its orders:
 *   echo ...            answer with a line as long as the request
 *   flood COUNT SIZE    write COUNT lines of SIZE bytes, one write each as real agents do, then answer
 *   packed COUNT SIZE   the same in writes of 64 KiB
 *   hold                never answer
 * Everything without an id is swallowed. Lines shorter than a message chunk can be are extension notifications.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 512, BLOCK = 65536, MAX_ID = 64 };

static void write_all(const char *data, size_t size) {
    while (size) {
        ssize_t done = write(1, data, size);
        if (done < 0) {
            if (errno == EINTR) continue;
            exit(1);
        }
        data += done;
        size -= (size_t)done;
    }
}

static void *allocate(size_t size) {
    void *memory = malloc(size);
    if (!memory) abort();
    return memory;
}

/* Finds `needle` near the start or the end of a line: relays that parse and write again move members about. */
static const char *find(const char *line, size_t size, const char *needle) {
    size_t window = size < WINDOW ? size : WINDOW;
    const char *found = memmem(line, window, needle, strlen(needle));
    return found ? found : memmem(line + size - window, window, needle, strlen(needle));
}

/* A line of `size` bytes: `head`, as many x as fit, `tail`, LF. */
static char *padded(size_t size, const char *head, const char *tail) {
    size_t fixed = strlen(head) + strlen(tail) + 1;
    if (size < fixed) size = fixed;
    char *line = allocate(size + 1);
    size_t pad = size - fixed;
    memcpy(line, head, strlen(head));
    memset(line + strlen(head), 'x', pad);
    memcpy(line + strlen(head) + pad, tail, strlen(tail));
    memcpy(line + size - 1, "\n", 2);
    return line;
}

static void answer(const char *id, size_t size, const char *result_head, const char *result_tail) {
    char head[256];
    snprintf(head, sizeof head, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s", id, result_head);
    char *line = padded(size, head, result_tail);
    write_all(line, strlen(line));
    free(line);
}

static void flood(long count, size_t size, size_t block_size) {
    char *line = size < 160
        ? padded(size + 1, "{\"jsonrpc\":\"2.0\",\"method\":\"_bench/tick\",\"params\":{\"pad\":\"", "\"}}")
        : padded(size + 1,
                 "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":"
                 "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"",
                 "\"}}}}");
    size_t length = strlen(line);
    long group = length < block_size ? (long)(block_size / length) : 1;
    char *block = allocate(length * (size_t)group);
    for (long n = 0; n < group; n++) memcpy(block + (size_t)n * length, line, length);
    for (; count > 0; count -= group) write_all(block, length * (size_t)(count < group ? count : group));
    free(block);
    free(line);
}

static void prompt(const char *line, size_t size, const char *id) {
    const char *orders = memmem(line, size, "\"text\":", 7);
    if (!orders) return;
    orders += 7;
    while (*orders == ' ' || *orders == '"') orders++;
    long count;
    size_t length;
    if (!strncmp(orders, "hold", 4)) return;
    int is_packed = !strncmp(orders, "packed ", 7);
    if ((is_packed || !strncmp(orders, "flood ", 6)) && sscanf(orders + 6, "%ld %zu", &count, &length) == 2) {
        flood(count, length, is_packed ? BLOCK : 0);
        answer(id, 0, "{\"stopReason\":\"end_turn\"}", "}");
        return;
    }
    answer(id, size + 1, "{\"stopReason\":\"end_turn\",\"_meta\":{\"pad\":\"", "\"}}}");
}

static void handle(const char *line, size_t size) {
    const char *found = find(line, size, "\"id\":");
    if (!found) return;
    char id[MAX_ID];
    found += 5;
    while (*found == ' ') found++;
    size_t length = strcspn(found, ",}\n");
    if (length >= sizeof id) return;
    memcpy(id, found, length);
    id[length] = 0;
    if (find(line, size, "session/prompt")) prompt(line, size, id);
    else if (find(line, size, "session/new")) answer(id, 0, "{\"sessionId\":\"s\"}", "}");
    else answer(id, 0, "{\"protocolVersion\":1,\"agentCapabilities\":{},\"authMethods\":[]}", "}");
}

int main(void) {
    size_t room = 1 << 20, have = 0, seen = 0;
    char *buffer = allocate(room + 1);
    for (;;) {
        if (have == room && !(buffer = realloc(buffer, (room *= 2) + 1))) abort();
        ssize_t got = read(0, buffer + have, room - have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        have += (size_t)got;
        buffer[have] = 0;
        size_t start = 0;
        for (char *end; (end = memchr(buffer + seen, '\n', have - seen)); start = seen = (size_t)(end - buffer) + 1)
            handle(buffer + start, (size_t)(end - buffer) - start);
        if (start) memmove(buffer, buffer + start, have - start);
        seen = have -= start;
    }
}
