# bash completion for omn: omn itself is asked what could stand where the cursor is.
_omn_complete() {
    local rest=${COMP_LINE:0:COMP_POINT} before= part word cut= char kind value meaning
    local -i place
    local -a words=()
    COMPREPLY=()
    for ((place = 1; place < COMP_CWORD; place++)); do
        if [[ ${COMP_WORDS[place]} == -- && ${COMP_WORDS[1]} != completion ]]; then
            # Everything behind it is the program's command line.
            if declare -F _command_offset >/dev/null; then
                _command_offset $((place + 1))
            elif ((COMP_CWORD == place + 1)); then
                mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
            else
                compopt -o default
            fi
            return
        fi
    done
    # bash breaks words at the characters of COMP_WORDBREAKS, and force:ID and topk@comm are one word here.
    for ((place = 0; place <= COMP_CWORD; place++)); do
        part=${COMP_WORDS[place]}
        before=${rest%%[![:space:]]*}
        rest=${rest#"$before"}
        ((${#part} > ${#rest})) && part=$rest
        rest=${rest#"$part"}
        if ((place == 0)) || [[ -n $before ]]; then
            words+=("$part")
        else
            words[${#words[@]}-1]+=$part
        fi
    done
    word=${words[${#words[@]}-1]}
    for char in : @ =; do
        part=${word%"${word##*"$char"}"}
        [[ $COMP_WORDBREAKS == *"$char"* && $word == *"$char"* ]] && ((${#part} > ${#cut})) && cut=$part
    done
    while IFS=$'\t' read -r kind value meaning; do
        case $kind in
        file) compopt -o default ;;
        dir) compopt -o dirnames ;;
        plain) COMPREPLY+=("${value#"$cut"}") ;;
        esac
    done < <("${words[0]}" completion bash -- "${words[@]:1}" 2>/dev/null)
}
complete -F _omn_complete omn
