/* serve/media_file.h - images that requests name by file:// addresses, from one folder. Names are
 * relative to it; a name with "..", and every symbolic link below the folder, is refused, so that a
 * request cannot reach other files. */
#ifndef FT_SERVE_MEDIA_FILE_H
#define FT_SERVE_MEDIA_FILE_H

#include "base/err.h"

/* The bytes of a regular file of at most `max` bytes; yours (free()). FT_EINVAL: the name is not
 * allowed; FT_EIO: there is no such file, or it cannot be read; FT_ELIMIT: it is too large. */
ft_status ft_media_read(void **bytes, size_t *n, const char *folder, const char *name, size_t max,
                        ft_err *err);

#endif
