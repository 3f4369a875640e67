/* foretoken.h - the public C API of foretoken, an inference engine for GGUF models.
 *
 * This page is the whole interface: programs include this header and link libforetoken.
 * Every function that can fail returns ft_status and, when err is not NULL, leaves one sentence
 * there that names the thing, the value found and the value wanted. */
#ifndef FORETOKEN_H
#define FORETOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors -------------------------------------------------------------------------------- */

typedef enum ft_status {
    FT_OK = 0,
    FT_EFORMAT = -1,      /* bytes that do not follow their format */
    FT_EUNSUPPORTED = -2, /* well formed, but nothing we can use */
    FT_ELIMIT = -3,       /* larger than a limit we set */
    FT_ENOMEM = -4,
    FT_EIO = -5,    /* the operating system said no */
    FT_EINVAL = -6, /* a wrong argument or option */
    FT_ENOTFOUND = -7,
    FT_ECANCELLED = -8,
    FT_EDEVICE = -9,
} ft_status;

typedef struct ft_err {
    ft_status code;
    char text[500]; /* one sentence, lower case, no newline */
} ft_err;

/* ---- version ------------------------------------------------------------------------------- */

/* "0.1.0 (commit)". Never NULL. */
const char *ft_version(void);

#ifdef __cplusplus
}
#endif
#endif
