/* base/status.h - the status codes, the error that every fallible function can fill, and the limit
 * on draft tokens.
 * foretoken.h repeats the definitions, because its users get that one file. */
#ifndef FT_BASE_STATUS_H
#define FT_BASE_STATUS_H

#ifndef FT_STATUS_DEFINED /* foretoken.h has these lines too; `make layers` compares them */
#define FT_STATUS_DEFINED
typedef enum ft_status {
    FT_OK = 0,
    FT_EFORMAT = -1,      /* invalid format */
    FT_EUNSUPPORTED = -2, /* well formed, but not supported */
    FT_ELIMIT = -3,       /* exceeds a limit of the library */
    FT_ENOMEM = -4,
    FT_EIO = -5,    /* error from the operating system */
    FT_EINVAL = -6, /* invalid argument or option */
    FT_ENOTFOUND = -7,
    FT_ECANCELLED = -8,
    FT_EDEVICE = -9,
    FT_ECONTEXT = -10, /* the prompt is longer than the context */
    FT_EBUSY = -11,    /* the request queue is full */
    FT_ENOSPC = -12,   /* the disk or the quota is full */
} ft_status;

typedef struct ft_err {
    ft_status code;
    char text[500]; /* error message, lower case, no newline */
} ft_err;

enum { FT_DRAFT_MAX = 15 }; /* maximum number of draft tokens per step */
#endif

#endif
