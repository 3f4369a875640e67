/* fuzz/request.c - arbitrary bytes as a request: the first selects the route, the rest is the body.
 */
#define _GNU_SOURCE
#include "routes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!server) start_model();
    if (n) answer_once(data[0], (ft_str){(const char *)data + 1, n - 1});
    return 0;
}
