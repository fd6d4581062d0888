# Completion of holdfast-cc and holdfast-c++ for bash: the compiler itself says what there is, ours and Clang's.
# shellcheck shell=bash
_holdfast_cc() {
  local line=${COMP_LINE:0:COMP_POINT} word found prefix=
  word=${line##*[[:space:]]}
  COMPREPLY=()
  if [[ $word == -fnvm-unsafe=* ]]; then
    while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -f -- "${word#*=}")
    compopt -o filenames 2>/dev/null
  elif [[ $word == -* ]]; then
    # What stands before an '=' is a word of its own to the shell.
    if [[ $COMP_WORDBREAKS == *=* && $word == *=* ]]; then prefix=${word%=*}=; fi
    while IFS=$'\t' read -r found _; do
      if [[ $found == *= ]]; then compopt -o nospace 2>/dev/null; fi
      COMPREPLY+=("${found#"$prefix"}")
    done < <("${COMP_WORDS[0]}" "--autocomplete=$word" 2>/dev/null)
  else
    while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -f -- "$word")
    compopt -o filenames 2>/dev/null
  fi
}
complete -F _holdfast_cc holdfast-cc holdfast-c++
