/* api/schema.c - checks JSON schemas for callers. */
#include "foretoken.h"
#include "text/schema_parts.h"

bool ft_schema_holds_format(const char *format, int64_t min, int64_t max)
{
    uint32_t least, most;
    if (!ft_schema_format(format, &least, &most)) return false;
    return least >= min && (int64_t)most <= max;
}
