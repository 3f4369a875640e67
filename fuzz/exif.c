/* Any bytes as an EXIF block. */
#include "image/image.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const int o = ft_exif_orientation(data, n);
    if (o < 1 || o > 8) abort();
    return 0;
}
