/* ft.c - joins text/ to engine/ and implements foretoken.h. */
#include "foretoken.h"

const char *ft_version(void)
{
    return FT_VERSION;
}
