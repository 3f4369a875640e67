# Nix expression. Not tested.
#   nix-build -E 'with import <nixpkgs> {}; callPackage ./deploy/foretoken.nix {}'
{ lib
, stdenv
, pkg-config
, cmocka
, curl
, jansson
, libedit
, libmicrohttpd
, pcre2
, utf8proc
, xxHash
}:

stdenv.mkDerivation {
  pname = "foretoken";
  version = lib.fileContents ../VERSION;
  src = lib.cleanSource ./..;

  nativeBuildInputs = [ pkg-config ];
  buildInputs = [ curl jansson libedit libmicrohttpd pcre2 utf8proc xxHash ];
  nativeCheckInputs = [ cmocka ];

  postPatch = "patchShebangs scripts tests";
  enableParallelBuilding = true;
  # paths are compiled in, so they must be the same when building and when installing
  makeFlags = [ "PREFIX=${placeholder "out"}" "CC=${stdenv.cc.targetPrefix}cc" ];
  doCheck = true;
  checkTarget = "check-unit";

  meta = {
    description = "LLM inference with multi-token prediction";
    license = lib.licenses.mit;
    platforms = lib.platforms.linux;
    mainProgram = "foretoken";
  };
}
