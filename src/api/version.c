/* api/version.c - ft_version. */
#include "foretoken.h"

const char *ft_version(void)
{
    return FT_VERSION;
}
